//! Boards of projects and groups, and their lists.

use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::identity::space_access::SpaceAccess;
use domain::kernel::error::{Error, Result};
use domain::kernel::page::{Page, PageRequest};
use domain::planning::boards::lists::{self, Subject};
use domain::planning::boards::{self, Change, List, Row};

use crate::api::routes::BoardsApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::planning::board::{board, list};
use contract::{
    Board, BoardList, BoardListCreate, BoardUpdate, CreateGroupBoardListRequest, CreateGroupBoardRequest,
    CreateProjectBoardListRequest, CreateProjectBoardRequest, DeleteGroupBoardListRequest,
    DeleteGroupBoardRequest, DeleteProjectBoardListRequest, DeleteProjectBoardRequest,
    GetGroupBoardListRequest, GetGroupBoardRequest, GetProjectBoardListRequest, GetProjectBoardRequest,
    ListGroupBoardListsRequest, ListProjectBoardListsRequest, MoveGroupBoardListRequest,
    MoveProjectBoardListRequest, UpdateGroupBoardRequest, UpdateProjectBoardRequest,
};

/// Returns the label, milestone or assignee of a new list.
fn subject(body: &BoardListCreate) -> Result<Subject> {
    let given = [
        body.label_id.map(Subject::Label),
        body.milestone_id.map(Subject::Milestone),
        body.assignee_id.map(Subject::Assignee),
    ];
    let mut given = given.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(Error::parameter(
            "label_id, milestone_id, assignee_id are mutually exclusive",
        )),
        (None, _) => Err(Error::parameter(
            "label_id, milestone_id, assignee_id are missing, exactly one parameter must be provided",
        )),
    }
}

impl App {
    fn board(&self, row: Row) -> Board {
        board(&self.backend.instance.base_url, row)
    }

    fn board_list(&self, found: List) -> BoardList {
        list(&self.backend.instance.base_url, found)
    }

    async fn boards(&self, place: impl Into<SpaceAccess>, page: PageRequest) -> Result<Page<Board>> {
        let page = boards::list(&self.backend, &place.into(), &page).await?;
        Ok(page.map(|row| self.board(row)))
    }

    async fn create_board(&self, place: impl Into<SpaceAccess>, name: &str) -> Result<Board> {
        let made = boards::create(&self.backend, &place.into(), name).await?;
        Ok(self.board(made))
    }

    async fn update_board(&self, place: impl Into<SpaceAccess>, id: i64, body: BoardUpdate) -> Result<Board> {
        let change = Change {
            name: body.name,
            hide_backlog_list: body.hide_backlog_list,
            hide_closed_list: body.hide_closed_list,
            milestone_id: body.milestone_id.into_patch(),
            assignee_id: body.assignee_id.into_patch(),
            labels: body.labels,
            weight: body.weight.into_patch(),
        };
        let changed = boards::update(&self.backend, &place.into(), id, change).await?;
        Ok(self.board(changed))
    }

    async fn board_lists(
        &self,
        place: impl Into<SpaceAccess>,
        id: i64,
        page: PageRequest,
    ) -> Result<Page<BoardList>> {
        let page = lists::list(&self.backend, &place.into(), id, &page).await?;
        Ok(page.map(|found| self.board_list(found)))
    }

    async fn create_board_list(
        &self,
        place: impl Into<SpaceAccess>,
        id: i64,
        body: BoardListCreate,
    ) -> Result<BoardList> {
        let made = lists::create(&self.backend, &place.into(), id, subject(&body)?).await?;
        Ok(self.board_list(made))
    }

    async fn move_board_list(
        &self,
        place: impl Into<SpaceAccess>,
        (board_id, id): (i64, i64),
        position: i64,
    ) -> Result<BoardList> {
        let moved = lists::shift(&self.backend, &place.into(), board_id, id, position).await?;
        Ok(self.board_list(moved))
    }
}

impl BoardsApi for App {
    async fn list_project_boards(&self, access: ProjectAccess, page: PageRequest) -> Result<Page<Board>> {
        self.boards(access, page).await
    }

    async fn create_project_board(
        &self,
        access: ProjectAccess,
        request: CreateProjectBoardRequest,
    ) -> Result<Board> {
        self.create_board(access, &request.body.name).await
    }

    async fn get_project_board(
        &self,
        access: ProjectAccess,
        request: GetProjectBoardRequest,
    ) -> Result<Board> {
        let found = boards::read(&self.backend, &access.into(), request.board_id).await?;
        Ok(self.board(found))
    }

    async fn update_project_board(
        &self,
        access: ProjectAccess,
        request: UpdateProjectBoardRequest,
    ) -> Result<Board> {
        self.update_board(access, request.board_id, request.body).await
    }

    async fn delete_project_board(
        &self,
        access: ProjectAccess,
        request: DeleteProjectBoardRequest,
    ) -> Result<()> {
        let condition = request.if_unmodified_since.as_deref();
        boards::delete(&self.backend, &access.into(), request.board_id, condition).await
    }

    async fn list_project_board_lists(
        &self,
        access: ProjectAccess,
        request: ListProjectBoardListsRequest,
        page: PageRequest,
    ) -> Result<Page<BoardList>> {
        self.board_lists(access, request.board_id, page).await
    }

    async fn create_project_board_list(
        &self,
        access: ProjectAccess,
        request: CreateProjectBoardListRequest,
    ) -> Result<BoardList> {
        self.create_board_list(access, request.board_id, request.body)
            .await
    }

    async fn get_project_board_list(
        &self,
        access: ProjectAccess,
        request: GetProjectBoardListRequest,
    ) -> Result<BoardList> {
        let place = access.into();
        let found = lists::read(&self.backend, &place, request.board_id, request.list_id).await?;
        Ok(self.board_list(found))
    }

    async fn move_project_board_list(
        &self,
        access: ProjectAccess,
        request: MoveProjectBoardListRequest,
    ) -> Result<BoardList> {
        let ids = (request.board_id, request.list_id);
        self.move_board_list(access, ids, request.body.position).await
    }

    async fn delete_project_board_list(
        &self,
        access: ProjectAccess,
        request: DeleteProjectBoardListRequest,
    ) -> Result<()> {
        let (place, condition) = (access.into(), request.if_unmodified_since.as_deref());
        lists::delete(
            &self.backend,
            &place,
            request.board_id,
            request.list_id,
            condition,
        )
        .await
    }

    async fn list_group_boards(&self, access: GroupAccess, page: PageRequest) -> Result<Page<Board>> {
        self.boards(access, page).await
    }

    async fn create_group_board(
        &self,
        access: GroupAccess,
        request: CreateGroupBoardRequest,
    ) -> Result<Board> {
        self.create_board(access, &request.body.name).await
    }

    async fn get_group_board(&self, access: GroupAccess, request: GetGroupBoardRequest) -> Result<Board> {
        let found = boards::read(&self.backend, &access.into(), request.board_id).await?;
        Ok(self.board(found))
    }

    async fn update_group_board(
        &self,
        access: GroupAccess,
        request: UpdateGroupBoardRequest,
    ) -> Result<Board> {
        self.update_board(access, request.board_id, request.body).await
    }

    async fn delete_group_board(&self, access: GroupAccess, request: DeleteGroupBoardRequest) -> Result<()> {
        let condition = request.if_unmodified_since.as_deref();
        boards::delete(&self.backend, &access.into(), request.board_id, condition).await
    }

    async fn list_group_board_lists(
        &self,
        access: GroupAccess,
        request: ListGroupBoardListsRequest,
        page: PageRequest,
    ) -> Result<Page<BoardList>> {
        self.board_lists(access, request.board_id, page).await
    }

    async fn create_group_board_list(
        &self,
        access: GroupAccess,
        request: CreateGroupBoardListRequest,
    ) -> Result<BoardList> {
        self.create_board_list(access, request.board_id, request.body)
            .await
    }

    async fn get_group_board_list(
        &self,
        access: GroupAccess,
        request: GetGroupBoardListRequest,
    ) -> Result<BoardList> {
        let place = access.into();
        let found = lists::read(&self.backend, &place, request.board_id, request.list_id).await?;
        Ok(self.board_list(found))
    }

    async fn move_group_board_list(
        &self,
        access: GroupAccess,
        request: MoveGroupBoardListRequest,
    ) -> Result<BoardList> {
        let ids = (request.board_id, request.list_id);
        self.move_board_list(access, ids, request.body.position).await
    }

    async fn delete_group_board_list(
        &self,
        access: GroupAccess,
        request: DeleteGroupBoardListRequest,
    ) -> Result<()> {
        let (place, condition) = (access.into(), request.if_unmodified_since.as_deref());
        lists::delete(
            &self.backend,
            &place,
            request.board_id,
            request.list_id,
            condition,
        )
        .await
    }
}
