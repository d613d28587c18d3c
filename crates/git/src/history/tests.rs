//! Every result is compared with the `git` program: without a commit-graph, with a full one, and with a partial
//! one.

use super::*;
use crate::OBJECT_TOO_LARGE;
use crate::test_repository::{PATHS, TestRepository};
use crate::testing::{self, Fixture};

/// Returns repositories with the three states of the commit-graph.
fn samples() -> [TestRepository; 3] {
    let write = ["commit-graph", "write", "--reachable", "--changed-paths"];
    let none = TestRepository::with_history();
    let full = TestRepository::with_history();
    full.git(&write);
    let partial = TestRepository::with_history();
    let old = partial.id("main~60").to_string();
    partial.git(&["update-ref", "refs/keep/old", &old]);
    let all = partial.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
    for line in all.lines().filter(|line| !line.contains("refs/keep")) {
        partial.git(&["update-ref", "-d", line.split(' ').next().unwrap()]);
    }
    partial.git(&[
        "-c",
        "commitGraph.changedPathsVersion=2",
        "commit-graph",
        "write",
        "--reachable",
        "--changed-paths",
        "--split",
    ]);
    for line in all.lines() {
        let (name, id) = line.split_once(' ').unwrap();
        partial.git(&["update-ref", name, id]);
    }
    let newer = partial.id("main~20").to_string();
    partial.git(&["update-ref", "refs/keep/old", &newer]);
    [none, full, partial]
}

async fn listed(sample: &TestRepository, selection: CommitSelection) -> Vec<Oid> {
    let page = CommitQuery {
        selection,
        offset: 0,
        limit: usize::MAX,
    };
    sample.repository.list_commits(page).await.unwrap()
}

fn from(sample: &TestRepository, tips: &[&str]) -> CommitSelection {
    CommitSelection {
        tips: tips.iter().map(|tip| sample.id(tip)).collect(),
        ..CommitSelection::default()
    }
}

#[tokio::test]
async fn list_commits_matches_git_log() {
    for sample in samples() {
        let all = listed(&sample, from(&sample, &["main"])).await;
        assert!(all.len() > 130, "the sample has grown thin: {}", all.len());
        assert_eq!(all, sample.ids(&["log", "--format=%H", "main"]));
        let first = CommitSelection {
            first_parent: true,
            ..from(&sample, &["main"])
        };
        assert_eq!(
            listed(&sample, first).await,
            sample.ids(&["log", "--format=%H", "--first-parent", "main"])
        );
        let topo = CommitSelection {
            order: CommitOrder::Topo,
            ..from(&sample, &["main", "apart"])
        };
        let expected = sample.ids(&["log", "--format=%H", "--topo-order", "main", "apart"]);
        assert_eq!(listed(&sample, topo).await, expected);
    }
}

#[tokio::test]
async fn list_commits_by_range_and_date_matches_git() {
    for sample in samples() {
        for (hidden, tip) in [
            ("main~30", "main"),
            ("main", "apart"),
            ("side-23", "main"),
            ("v53", "v73"),
        ] {
            let range = CommitSelection {
                hidden: vec![sample.id(hidden)],
                ..from(&sample, &[tip])
            };
            let mut ours = listed(&sample, range).await;
            let mut expected = sample.ids(&["rev-list", &format!("{hidden}..{tip}")]);
            ours.sort_unstable();
            expected.sort_unstable();
            assert_eq!(ours, expected, "{hidden}..{tip}");
        }
        let bounds = CommitSelection {
            since: Some(1_600_005_000),
            until: Some(1_600_009_000),
            ..from(&sample, &["main"])
        };
        let expected = [
            "log",
            "--format=%H",
            "--since=1600005000",
            "--until=1600009000",
            "main",
        ];
        let listed = listed(&sample, bounds).await;
        assert!(!listed.is_empty());
        assert_eq!(listed, sample.ids(&expected));
    }
}

#[tokio::test]
async fn list_commits_by_path_matches_git_log() {
    for sample in samples() {
        for path in PATHS.iter().chain(&[
            "src", "src/", "docs", "src/deep", "link", "link/", "absent", "run",
        ]) {
            for revision in ["main", "main~40", "side-93"] {
                let by_path = CommitSelection {
                    path: Some((*path).to_owned()),
                    ..from(&sample, &[revision])
                };
                let expected = sample.ids(&["log", "--format=%H", revision, "--", path]);
                assert_eq!(
                    listed(&sample, by_path.clone()).await,
                    expected,
                    "{path} from {revision}"
                );
                let last = sample
                    .repository
                    .last_commit_of(sample.id(revision), path)
                    .await
                    .unwrap();
                assert_eq!(last, expected.first().copied(), "{path} from {revision}");
                let topo = CommitSelection {
                    order: CommitOrder::Topo,
                    ..by_path.clone()
                };
                let expected = sample.ids(&["log", "--format=%H", "--topo-order", revision, "--", path]);
                assert_eq!(
                    listed(&sample, topo).await,
                    expected,
                    "{path} from {revision}, topological"
                );
                let first = CommitSelection {
                    first_parent: true,
                    ..by_path
                };
                let expected = sample.ids(&["log", "--format=%H", "--first-parent", revision, "--", path]);
                assert_eq!(
                    listed(&sample, first).await,
                    expected,
                    "{path} from {revision}, first parents"
                );
            }
        }
    }
}

#[tokio::test]
async fn list_commits_by_path_and_range_matches_git_log() {
    for sample in samples() {
        let mut borders = vec!["side-53".to_owned(), "apart".to_owned(), "main~31".to_owned()];
        for merge in sample
            .ids(&["rev-list", "--merges", "main"])
            .into_iter()
            .step_by(4)
        {
            borders.extend([format!("{merge}^1"), format!("{merge}^2")]);
        }
        for border in borders {
            for path in ["README.md", "run.sh", "src"] {
                let hidden = vec![sample.id(&border)];
                let path_of = Some(path.to_owned());
                let range = CommitSelection {
                    hidden,
                    path: path_of,
                    ..from(&sample, &["main"])
                };
                let expected = sample.ids(&["log", "--format=%H", &format!("{border}..main"), "--", path]);
                assert_eq!(listed(&sample, range).await, expected, "{path} from {border}");
            }
        }
    }
}

#[tokio::test]
async fn pages_and_counts_match_complete_list() {
    let [_, sample, _] = samples();
    let selection = from(&sample, &["main"]);
    let all = listed(&sample, selection.clone()).await;
    for (offset, limit) in [(0, 20), (17, 5), (all.len() - 3, 20), (all.len() + 1, 20)] {
        let page = CommitQuery {
            selection: selection.clone(),
            offset,
            limit,
        };
        let expected: Vec<_> = all.iter().copied().skip(offset).take(limit).collect();
        assert_eq!(sample.repository.list_commits(page).await.unwrap(), expected);
    }
    for cap in [1, 10, 10_001] {
        let count = sample
            .repository
            .count_commits(selection.clone(), cap)
            .await
            .unwrap();
        assert_eq!(count, all.len().min(cap));
        assert_eq!(
            sample
                .repository
                .count_commits(selection.clone(), cap)
                .await
                .unwrap(),
            count
        );
    }
}

#[tokio::test]
async fn branches_and_tags_containing_commit_match_git() {
    for sample in samples() {
        for revision in [
            "main",
            "main~1",
            "main~50",
            "side-33",
            "side-33~1",
            "v63",
            "main~100",
        ] {
            let containing = sample.repository.containing(sample.id(revision)).await.unwrap();
            for (kind, ours) in [
                ("refs/heads", &containing.branches),
                ("refs/tags", &containing.tags),
            ] {
                let contains = format!("--contains={}", sample.id(revision));
                let theirs = sample.git(&["for-each-ref", "--format=%(refname:lstrip=2)", &contains, kind]);
                assert_eq!(
                    *ours,
                    theirs.lines().map(str::to_owned).collect::<Vec<_>>(),
                    "{revision}"
                );
            }
        }
    }
}

#[tokio::test]
async fn merge_bases_match_git() {
    for sample in samples() {
        let revisions = [
            "main",
            "main~7",
            "side-33",
            "side-63~1",
            "v73",
            "apart",
            "main~90",
        ];
        for one in revisions {
            for other in revisions {
                let (one, other) = (sample.id(one), sample.id(other));
                let mut ours = sample.repository.merge_bases(vec![one, other]).await.unwrap();
                let mut theirs = sample.ids(&["merge-base", "--all", &one.to_string(), &other.to_string()]);
                ours.sort_unstable();
                theirs.sort_unstable();
                assert_eq!(ours, theirs);
                let ancestor = sample.repository.is_ancestor(one, other).await.unwrap();
                assert_eq!(ancestor, theirs == [one]);
            }
        }
    }
}

#[tokio::test]
async fn commit_graph_written_after_first_query_is_used() {
    let sample = TestRepository::with_history();
    let before = listed(&sample, from(&sample, &["main"])).await;
    sample.git(&[
        "commit-graph",
        "write",
        "--reachable",
        "--changed-paths",
        "--split",
    ]);
    sample.import(
        b"commit refs/heads/main\ncommitter A <a@example.com> 1700000000 +0000\ndata 4\nnew\n\
          from refs/heads/main^0\nM 100644 inline README.md\ndata 3\nnew\n\n",
    );
    let after = listed(&sample, from(&sample, &["main"])).await;
    assert_eq!(after[1..], before);
    let last = sample
        .repository
        .last_commit_of(after[0], "README.md")
        .await
        .unwrap();
    assert_eq!(last, Some(after[0]));
}

#[tokio::test]
async fn tips_that_are_not_commits_are_rejected() {
    let sample = TestRepository::with_history();
    let tree = sample.ids(&["rev-parse", "main^{tree}"])[0];
    for id in [tree, Oid::ZERO_SHA1] {
        let selection = CommitSelection {
            tips: vec![id],
            ..CommitSelection::default()
        };
        let answer = sample.repository.count_commits(selection, 10).await;
        assert!(matches!(answer, Err(Error::ObjectNotFound)), "{answer:?}");
    }
}

#[tokio::test]
async fn bloom_filters_skip_trees_of_most_commits() {
    let sample = TestRepository::with_history();
    sample.repository.write_commit_graph().await.unwrap();
    let graph = Graph::load(&sample.repository.path(), &Arc::default());
    let commits = sample.ids(&["rev-list", "--all"]);
    assert_eq!(graph.len() as usize, commits.len());
    for path in ["README.md", "src/deep/er/lib.rs", "docs/übung.md", "never/there"] {
        let keys = bloom::PathKeys::new(path.as_bytes());
        let changing = sample.ids(&[
            "log",
            "--all",
            "--full-history",
            "--no-merges",
            "--format=%H",
            "--",
            path,
        ]);
        let mut looked_at = 0;
        for commit in &commits {
            let position = graph.find(*commit).unwrap();
            assert_eq!(graph.id(position), Some(*commit));
            let may_change = graph.may_change(position, &keys);
            looked_at += usize::from(may_change);
            assert!(
                may_change || !changing.contains(commit),
                "{commit} changes {path}"
            );
        }
        assert!(
            looked_at < changing.len() + commits.len() / 10,
            "{looked_at} looks for {path}"
        );
    }
}

#[tokio::test]
async fn slow_history_query_times_out() {
    let sample = TestRepository::with_history();
    let options = gix::open::Options::isolated();
    let objects = gix::open_opts(sample.repository.path(), options).unwrap();
    let mut commits = Commits::new(Arc::default(), objects, Duration::ZERO);
    let answer = commits.node(sample.id("main"));
    assert!(matches!(answer, Err(Error::Timeout)), "{answer:?}");
}

#[tokio::test]
async fn slow_query_of_commit_graph_times_out() {
    let sample = TestRepository::with_history();
    sample.repository.write_commit_graph().await.unwrap();
    let graph = Graph::load(&sample.repository.path(), &Arc::default());
    let objects = gix::open_opts(sample.repository.path(), gix::open::Options::isolated()).unwrap();
    let mut commits = Commits::new(graph, objects, Duration::ZERO);
    let node = commits.node(sample.id("main")).unwrap();
    assert!(commits.in_graph(node));
    let answer = commits.parents(node);
    assert!(matches!(answer, Err(Error::Timeout)), "{answer:?}");
}

#[tokio::test]
async fn history_with_too_many_parents_is_refused() {
    let sample = TestRepository::with_history();
    let tree = sample.git(&["rev-parse", "main^{tree}"]);
    let mut tip = sample.id("main");
    for number in 0..6 {
        let parents = format!("parent {tip}\n").repeat(180_000);
        let who = format!("A <a@example.com> {} +0000", 1_800_000_000 + number);
        let commit = format!("tree {tree}{parents}author {who}\ncommitter {who}\n\nx\n");
        let id = sample.git_stdin(
            &["hash-object", "-t", "commit", "-w", "--stdin"],
            commit.as_bytes(),
        );
        tip = Oid::from_str(id.trim()).unwrap();
    }
    sample.git(&["update-ref", "refs/heads/main", &tip.to_string()]);
    for with_graph in [false, true] {
        if with_graph {
            sample.git(&["commit-graph", "write", "--reachable"]);
        }
        for order in [CommitOrder::Topo, CommitOrder::Default] {
            let selection = CommitSelection {
                order,
                ..from(&sample, &["main"])
            };
            let query = CommitQuery {
                selection,
                offset: 0,
                limit: 100,
            };
            let answer = sample.repository.list_commits(query).await;
            assert!(
                matches!(answer, Err(Error::LimitExceeded(_))),
                "{with_graph} {order:?}"
            );
        }
    }
}

#[test]
fn damaged_commit_graph_fails_or_is_ignored_but_never_panics() {
    let sample = TestRepository::with_history();
    sample.git(&["commit-graph", "write", "--reachable", "--changed-paths"]);
    let path = sample.repository.path();
    let file = path.join("objects/info/commit-graph");
    let content = std::fs::read(&file).unwrap();
    let keys = bloom::PathKeys::new(b"src/main.rs");
    let mut loaded = 0;
    for at in (0..content.len()).step_by(31) {
        let mut bytes = content.clone();
        bytes[at] ^= 0xff;
        bytes.truncate(if at % 2 == 0 {
            content.len()
        } else {
            content.len() - at / 2
        });
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, bytes).unwrap();
        let graph = Graph::load(&path, &Arc::default());
        loaded += usize::from(graph.len() > 0);
        for position in (0..graph.len()).take(200) {
            let mut parents = Vec::new();
            let _ = graph.parents(position, &mut parents);
            assert!(parents.iter().all(|parent| *parent < graph.len()));
            let _ = graph.may_change(position, &keys);
            if let Some(id) = graph.id(position) {
                let _ = graph.find(id);
            }
        }
    }
    assert!(loaded > 0);
}

#[tokio::test]
async fn merged_tips_match_git_with_and_without_commit_graph() {
    let fixture = Fixture::new("main").await;
    let repository = &fixture.repository;
    let mut commits = Vec::new();
    for round in 0..6 {
        commits.push(testing::commit(repository, "main", &[("a", &round.to_string())]).await);
        if round % 2 == 0 {
            let side = format!("side{round}");
            fixture.git(&["branch", &side, "main"]);
            commits.push(testing::commit(repository, &side, &[("b", &round.to_string())]).await);
        }
    }
    let side = fixture.git(&["rev-parse", "side2"]);
    let merge = fixture.git(&[
        "commit-tree",
        "-m",
        "merge",
        "-p",
        "main",
        "-p",
        side.trim(),
        "main^{tree}",
    ]);
    commits.push(Oid::from_str(merge.trim()).unwrap());
    fixture.git(&["commit-graph", "write", "--reachable"]);
    commits.push(testing::commit(repository, "main", &[("a", "after the graph")]).await);
    for base in &commits {
        let merged = repository.merged_into(*base, commits.clone()).await.unwrap();
        for tip in &commits {
            let arguments = ["merge-base", "--is-ancestor", &tip.to_string(), &base.to_string()];
            let expected = fixture.command(&arguments).status().unwrap().success();
            assert_eq!(merged.contains(tip), expected);
            assert_eq!(repository.is_ancestor(*tip, *base).await.unwrap(), expected);
        }
    }
}

#[tokio::test]
async fn commits_that_take_too_much_memory_are_refused() {
    for is_packed in [false, true] {
        let fixture = Fixture::new("main").await;
        testing::commit(&fixture.repository, "main", &[("a", "1")]).await;
        let large = fixture.git_stdin(&["commit-tree", "main^{tree}"], "x".repeat(13 << 20).as_bytes());
        let last = fixture.git(&["commit-tree", "main^{tree}", "-p", large.trim(), "-m", "Last"]);
        fixture.git(&["update-ref", "refs/heads/main", last.trim()]);
        if is_packed {
            fixture.git(&["repack", "--quiet", "-a", "-d"]);
        }
        let query = CommitQuery {
            selection: CommitSelection {
                tips: vec![Oid::from_str(last.trim()).unwrap()],
                ..CommitSelection::default()
            },
            offset: 0,
            limit: 20,
        };
        let refused = fixture.repository.list_commits(query).await;
        assert!(
            matches!(refused, Err(Error::LimitExceeded(OBJECT_TOO_LARGE))),
            "{refused:?}"
        );
    }
}
