//! Boards of projects and groups, and their lists.

use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::identity::space_access::SpaceAccess;
use domain::kernel::error::{Error, Result};
use domain::kernel::page::{Page, PageRequest};
use domain::planning::boards::lists::{self, ListSubject};
use domain::planning::boards::{self, BoardDetail, BoardListDetail};

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
fn list_subject(body: &BoardListCreate) -> Result<ListSubject> {
    let subjects = [
        body.label_id.map(ListSubject::Label),
        body.milestone_id.map(ListSubject::Milestone),
        body.assignee_id.map(ListSubject::Assignee),
    ];
    let mut subjects = subjects.into_iter().flatten();
    match (subjects.next(), subjects.next()) {
        (Some(subject), None) => Ok(subject),
        (Some(_), Some(_)) => Err(Error::parameter(
            "label_id, milestone_id, assignee_id are mutually exclusive",
        )),
        (None, _) => Err(Error::parameter(
            "label_id, milestone_id, assignee_id are missing, exactly one parameter must be provided",
        )),
    }
}

impl App {
    fn board(&self, detail: BoardDetail) -> Board {
        board(&self.backend.instance.base_url, detail)
    }

    fn board_list(&self, detail: BoardListDetail) -> BoardList {
        list(&self.backend.instance.base_url, detail)
    }

    async fn list_boards(&self, space: impl Into<SpaceAccess>, page: PageRequest) -> Result<Page<Board>> {
        let page = boards::list(&self.backend, &space.into(), &page).await?;
        Ok(page.map(|detail| self.board(detail)))
    }

    async fn create_board(&self, space: impl Into<SpaceAccess>, name: &str) -> Result<Board> {
        let created = boards::create(&self.backend, &space.into(), name).await?;
        Ok(self.board(created))
    }

    async fn update_board(&self, space: impl Into<SpaceAccess>, id: i64, body: BoardUpdate) -> Result<Board> {
        let update = boards::BoardUpdate {
            name: body.name,
            hide_backlog_list: body.hide_backlog_list,
            hide_closed_list: body.hide_closed_list,
            milestone_id: body.milestone_id.into_patch(),
            assignee_id: body.assignee_id.into_patch(),
            labels: body.labels,
            weight: body.weight.into_patch(),
        };
        let updated = boards::update(&self.backend, &space.into(), id, update).await?;
        Ok(self.board(updated))
    }

    async fn list_board_lists(
        &self,
        space: impl Into<SpaceAccess>,
        id: i64,
        page: PageRequest,
    ) -> Result<Page<BoardList>> {
        let page = lists::list(&self.backend, &space.into(), id, &page).await?;
        Ok(page.map(|detail| self.board_list(detail)))
    }

    async fn create_board_list(
        &self,
        space: impl Into<SpaceAccess>,
        id: i64,
        body: BoardListCreate,
    ) -> Result<BoardList> {
        let created = lists::create(&self.backend, &space.into(), id, list_subject(&body)?).await?;
        Ok(self.board_list(created))
    }

    async fn move_board_list(
        &self,
        space: impl Into<SpaceAccess>,
        (board_id, id): (i64, i64),
        position: i64,
    ) -> Result<BoardList> {
        let moved = lists::move_to(&self.backend, &space.into(), board_id, id, position).await?;
        Ok(self.board_list(moved))
    }
}

impl BoardsApi for App {
    async fn list_project_boards(&self, access: ProjectAccess, page: PageRequest) -> Result<Page<Board>> {
        self.list_boards(access, page).await
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
        let board = boards::get(&self.backend, &access.into(), request.board_id).await?;
        Ok(self.board(board))
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
        self.list_board_lists(access, request.board_id, page).await
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
        let space = access.into();
        let list = lists::get(&self.backend, &space, request.board_id, request.list_id).await?;
        Ok(self.board_list(list))
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
        let (space, condition) = (access.into(), request.if_unmodified_since.as_deref());
        lists::delete(
            &self.backend,
            &space,
            request.board_id,
            request.list_id,
            condition,
        )
        .await
    }

    async fn list_group_boards(&self, access: GroupAccess, page: PageRequest) -> Result<Page<Board>> {
        self.list_boards(access, page).await
    }

    async fn create_group_board(
        &self,
        access: GroupAccess,
        request: CreateGroupBoardRequest,
    ) -> Result<Board> {
        self.create_board(access, &request.body.name).await
    }

    async fn get_group_board(&self, access: GroupAccess, request: GetGroupBoardRequest) -> Result<Board> {
        let board = boards::get(&self.backend, &access.into(), request.board_id).await?;
        Ok(self.board(board))
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
        self.list_board_lists(access, request.board_id, page).await
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
        let space = access.into();
        let list = lists::get(&self.backend, &space, request.board_id, request.list_id).await?;
        Ok(self.board_list(list))
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
        let (space, condition) = (access.into(), request.if_unmodified_since.as_deref());
        lists::delete(
            &self.backend,
            &space,
            request.board_id,
            request.list_id,
            condition,
        )
        .await
    }
}
