//! Task lists in descriptions: list items that start with a checkbox.

/// Counts the tasks of a description and the checked ones among them. Fenced code is skipped; block quotes
/// are included.
#[must_use]
pub fn count(description: Option<&str>) -> (i32, i32) {
    let (mut all, mut ticked) = (0, 0);
    let mut fence: Option<&str> = None;
    for line in description.unwrap_or_default().lines() {
        let line = line.trim_start_matches(|mark: char| mark == '>' || mark.is_whitespace());
        match fence {
            Some(mark) if line.starts_with(mark) => fence = None,
            Some(_) => {}
            None => {
                fence = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark));
                if let Some(done) = task(line) {
                    all += 1;
                    ticked += i32::from(done);
                }
            }
        }
    }
    (all, ticked)
}

/// Returns whether a task is checked, or `None` if the line is not a task.
fn task(line: &str) -> Option<bool> {
    let item = line.strip_prefix(['-', '*', '+']).or_else(|| {
        let rest = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
        if rest.len() == line.len() {
            return None;
        }
        rest.strip_prefix(['.', ')'])
    })?;
    let boxed = item.trim_start();
    if boxed.len() == item.len() {
        return None;
    }
    let (mark, rest) = boxed.strip_prefix('[')?.split_once(']')?;
    if !rest.starts_with(char::is_whitespace) {
        return None;
    }
    match mark {
        " " => Some(false),
        "x" | "X" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn checkboxes_at_start_of_list_items_are_tasks() {
        let text = "Do:\n- [ ] one\n  * [x] two\n1. [X] three\n12) [ ] four\n+ [ ] five";
        assert_eq!(count(Some(text)), (5, 2));
    }

    #[test]
    fn similar_text_is_not_a_task() {
        let text = "[x] no item\n-[ ] no space\n- [y] no mark\n- [ ]\n- [x]close\n1 [ ] no dot";
        assert_eq!(count(Some(text)), (0, 0));
        assert_eq!(count(None), (0, 0));
    }

    #[test]
    fn block_quotes_can_contain_tasks() {
        assert_eq!(
            count(Some("> - [x] one\n> > - [ ] two\n>```\n>- [ ] code\n> ```")),
            (2, 1)
        );
    }

    #[test]
    fn code_blocks_contain_no_tasks() {
        assert_eq!(
            count(Some("```\n- [ ] shown\n```\n- [x] meant\n~~~\n- [ ] shown")),
            (1, 1)
        );
    }
}
