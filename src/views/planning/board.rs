//! Boards and their lists.

use domain::planning::boards::{BoardDetail, BoardListDetail, BoardOwner};
use domain::planning::labels::colors;
use storage::entities::labels::LabelSummary;

use crate::views::accounts::users;
use crate::views::planning::milestone::milestone;
use crate::views::{html, links};
use contract::{Board, BoardGroup, BoardLabel, BoardList, BoardProject};

/// Returns a board; `base` is the base URL.
#[must_use]
pub fn board(base: &str, detail: BoardDetail) -> Board {
    let board = detail.board;
    let (project, group) = match detail.owner {
        BoardOwner::Project(project, full_path) => {
            let view = BoardProject {
                id: project.id,
                name: project.name,
                path: project.path,
                web_url: format!("{base}/{full_path}"),
                path_with_namespace: full_path,
            };
            (Some(view), None)
        }
        BoardOwner::Group(group) => {
            let view = BoardGroup {
                id: group.id,
                name: group.name,
                web_url: links::group(base, &group.full_path),
            };
            (None, Some(view))
        }
    };
    Board {
        id: board.id,
        name: board.name,
        hide_backlog_list: board.hide_backlog_list,
        hide_closed_list: board.hide_closed_list,
        project,
        group,
        milestone: detail.milestone.map(|detail| milestone(base, detail)),
        assignee: detail.assignee.map(|user| users::reference(base, user)),
        labels: detail.labels.into_iter().map(label).collect(),
        weight: board.weight.map(Into::into),
        lists: detail
            .lists
            .into_iter()
            .map(|detail| list(base, detail))
            .collect(),
    }
}

/// Returns a list of a board; `base` is the base URL.
#[must_use]
pub fn list(base: &str, list: BoardListDetail) -> BoardList {
    BoardList {
        id: list.id,
        label: list.label.map(label),
        milestone: list.milestone.map(|detail| milestone(base, detail)),
        assignee: list.assignee.map(|user| users::reference(base, user)),
        position: i64::try_from(list.position).unwrap_or(i64::MAX),
    }
}

fn label(label: LabelSummary) -> BoardLabel {
    BoardLabel {
        id: label.id,
        text_color: colors::text_color(&label.color).to_owned(),
        name: label.title,
        color: label.color,
        description_html: html::escape(label.description.as_deref().unwrap_or_default()),
        description: label.description.as_deref().map(str::to_owned),
    }
}
