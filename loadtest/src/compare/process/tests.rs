use super::*;

/// A shell with a child; both have used time when it says so, and then they wait.
const BUSY: &str = "
burn() { i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; }
burn
(burn; echo busy; read -r line <&3) &
wait
";

fn shell(script: &str, folder: &Path, core: usize) -> Process {
    let mut command = Command::new("sh");
    // Something to read from that never comes.
    let pipe = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let script = format!("exec 3<>{}\n{script}", pipe.display());
    command.args(["-c", &script]);
    start(&command, core, &folder.join("log")).unwrap()
}

fn a_core() -> usize {
    cores::allowed(Path::new("/proc/self/status")).unwrap()[0]
}

fn until_busy(process: &mut Process) {
    while process.last_output() != "busy" {
        process.check().unwrap();
        std::thread::yield_now();
    }
}

/// A child whose parent was ended is reaped by whoever adopts it: until then it is a zombie. A signal takes its time.
fn runs(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    !matches!(state, None | Some("Z" | "X"))
}

#[test]
fn time_and_memory_are_of_a_process_and_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let core = a_core();
    let mut process = shell(BUSY, folder.path(), core);
    until_busy(&mut process);
    assert_eq!(process.tree().len(), 2);
    process.check_pinned(core).unwrap();

    let whole = process.cpu().unwrap();
    let schedstat = format!("/proc/{}/schedstat", process.child.id());
    let parent = fs::read_to_string(schedstat).unwrap();
    let parent: u64 = parent.split(' ').next().unwrap().parse().unwrap();
    let parent = Duration::from_nanos(parent);
    assert!(!parent.is_zero());
    assert!(
        whole > parent + parent / 4,
        "the child's time is in it: {whole:?} of both, {parent:?} of the parent"
    );
    assert!(process.cpu().unwrap() >= whole, "time does not run back");

    let memory = process.memory().unwrap();
    assert!((10_000..100_000_000).contains(&memory), "{memory}");
}

#[test]
fn a_process_on_other_cores_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let core = a_core();
    let mut process = shell(BUSY, folder.path(), core);
    until_busy(&mut process);
    let problem = process.check_pinned(core + 1).unwrap_err().to_string();
    let end = format!("may use the cores [{core}], not only {}", core + 1);
    assert!(problem.ends_with(&end), "{problem}");
}

#[test]
fn all_are_ended_and_what_ended_by_itself_is_told_with_its_output() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = shell(BUSY, folder.path(), a_core());
    until_busy(&mut process);
    let all = process.tree();
    drop(process);
    for id in all {
        while runs(id) {
            std::thread::yield_now();
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let mut process = shell("echo no good >&2; exit 3", folder.path(), a_core());
    let problem = loop {
        match process.check() {
            Ok(()) => std::thread::yield_now(),
            Err(problem) => break problem.to_string(),
        }
    };
    assert_eq!(problem, "ended with exit status: 3:\nno good");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let command = Command::new("/no/such/program");
    let mut process = start(&command, a_core(), &folder.path().join("log")).unwrap();
    let problem = loop {
        match process.check() {
            Ok(()) => std::thread::yield_now(),
            Err(problem) => break problem.to_string(),
        }
    };
    assert!(problem.contains("/no/such/program"), "{problem}");
}
