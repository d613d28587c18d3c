//! `holdfast completions`.

use std::process::{Command, Output};

fn completions(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.arg("completions").args(arguments).output().expect("the server's binary")
}

async fn bash_completes_commands_and_options() {
    let script = completions(&["bash"]);
    assert!(script.status.success());
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("holdfast");
    std::fs::write(&file, script.stdout).expect("a file");
    // Calls the function of the script as the shell does for `holdfast WORDS<Tab>`.
    let complete = r#". "$1"; shift; COMP_WORDS=(holdfast "$@"); COMP_CWORD=$#; COMP_LINE="holdfast $*"; COMP_POINT=${#COMP_LINE}
        _holdfast holdfast "${@: -1}" "${@: -2:1}"; printf '%s\n' "${COMPREPLY[@]}""#;
    for (words, expected) in [
        (vec!["te"], "test-server"),
        (vec!["admin", "us"], "users"),
        (vec!["serve", "--lis"], "--listen"),
        (vec!["completions", "z"], "zsh"),
    ] {
        let mut command = Command::new("bash");
        let output = command.args(["--norc", "-c", complete, "bash"]).arg(&file).args(&words).output().expect("bash");
        let found = String::from_utf8_lossy(&output.stdout);
        assert!(found.lines().any(|line| line == expected), "{words:?}: {found}");
    }
}

async fn every_shell_has_a_script() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = completions(&[shell]).stdout;
        assert!(String::from_utf8_lossy(&script).contains("test-server"), "{shell}");
    }
    assert_eq!(completions(&["other"]).status.code(), Some(2));
}

harness::tests![bash_completes_commands_and_options, every_shell_has_a_script];
