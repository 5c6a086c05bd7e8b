//! Subcommands of the binary.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

fn setpoint(args: &[&str], dir: &Path) -> (bool, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_setpoint")).args(args).arg("--data-dir").arg(dir).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn fill(dir: &Path) {
    let (ok, _, errors) = setpoint(&["store", "exercise", "--writers", "2", "--operations", "100"], dir);
    assert!(ok, "{errors}");
}

#[test]
fn export_round_trips() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fill(from.path());
    let (ok, export, _) = setpoint(&["store", "export"], from.path());
    assert!(ok && export.lines().count() > 10, "{export}");
    let file = to.path().join("export");
    fs::write(&file, &export).unwrap();
    let data = to.path().join("data");
    let (ok, output, errors) = setpoint(&["store", "import", "--input", file.to_str().unwrap()], &data);
    assert!(ok, "{errors}");
    assert!(output.starts_with("imported "), "{output}");
    assert_eq!(setpoint(&["store", "export"], &data).1, export);
    let (ok, _, errors) = setpoint(&["store", "import", "--input", file.to_str().unwrap()], &data);
    assert!(!ok && errors.contains("already holds a store: import into an empty directory"), "{errors}");
    fill(&data);
}

#[test]
fn export_is_readable_only_by_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("export"));
    fill(&data);
    let export = |args: &[&str]| setpoint(args, &data);
    for before in [None, Some("an older and much longer file\n".repeat(10_000))] {
        if let Some(before) = before {
            fs::write(&file, before).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        }
        let (ok, _, errors) = export(&["store", "export", "--output", file.to_str().unwrap()]);
        assert!(ok, "{errors}");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&file).unwrap(), export(&["store", "export"]).1);
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o077;
    assert_eq!(mode(&data), 0, "the data directory");
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0, "{}", path.display());
    }
}

#[test]
fn lost_newest_segment_is_reported_at_start() {
    for harm in ["deleted", "cut"] {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path());
        let names =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let last = names.filter(|name| name.starts_with("segment-")).max().unwrap();
        match harm {
            "deleted" => fs::remove_file(dir.path().join(&last)).unwrap(),
            _ => {
                fs::OpenOptions::new().write(true).open(dir.path().join(&last)).unwrap().set_len(64).unwrap()
            }
        }
        for command in ["check", "compact"] {
            let (ok, _, errors) = setpoint(&["store", command], dir.path());
            assert!(
                !ok && errors.contains(&last) && errors.lines().count() == 1,
                "{harm}, {command}: {errors}"
            );
        }
    }
}

#[test]
fn truncated_export_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    fill(&dir.path().join("data"));
    let export = setpoint(&["store", "export"], &dir.path().join("data")).1;
    let cut = export.lines().take(3).collect::<Vec<_>>().join("\n");
    let file = dir.path().join("cut");
    fs::write(&file, cut).unwrap();
    let empty = dir.path().join("empty");
    let (ok, _, errors) = setpoint(&["store", "import", "--input", file.to_str().unwrap()], &empty);
    assert!(!ok && errors.contains("the export is truncated"), "{errors}");
    assert!(!empty.exists(), "nothing was made of it");
}

#[test]
fn check_stat_and_compact_print_their_results() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let (ok, out, _) = setpoint(&["store", "check"], dir.path());
    assert!(ok && out.contains("no damage found, newest revision "), "{out}");
    let (ok, out, _) = setpoint(&["store", "compact"], dir.path());
    assert!(ok && out.starts_with("compacted at revision "), "{out}");
    let (ok, out, _) = setpoint(&["store", "stat"], dir.path());
    assert!(ok && out.contains("checkpoint 2 files") && out.contains("exercise"), "{out}");
}

#[test]
fn corrupt_segment_fails_with_one_line() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let segment = names.into_iter().find(|path| path.to_string_lossy().contains("segment-")).unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    bytes[100] ^= 1;
    fs::write(&segment, bytes).unwrap();
    for command in [&["up"][..], &["store", "check"], &["store", "compact"]] {
        let (ok, _, errors) = setpoint(command, dir.path());
        assert!(!ok && errors.lines().count() == 1, "{errors}");
        assert!(errors.contains("segment-00000000000000000001.log is corrupt at byte 64"), "{errors}");
    }
}

#[test]
fn second_process_is_rejected_and_an_export_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .args(["store", "exercise", "--small", "--data-dir"])
        .arg(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2000 {
        lines.next().unwrap().unwrap();
    }
    let reading = std::thread::spawn(move || lines.by_ref().map_while(Result::ok).count());
    let (ok, _, errors) = setpoint(&["up"], dir.path());
    assert!(
        !ok && errors.contains(&format!("is in use by another setpoint process (process {})", child.id())),
        "{errors}"
    );
    for _ in 0..20 {
        let (ok, export, errors) = setpoint(&["store", "export"], dir.path());
        assert!(ok, "{errors}");
        let header: serde_json::Value = serde_json::from_str(export.lines().next().unwrap()).unwrap();
        assert_eq!(header["objects"].as_u64().unwrap() as usize, export.lines().count() - 1);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(reading.join().unwrap() > 0);
}

#[test]
fn unusable_paths_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("nowhere");
    for command in ["check", "stat", "compact", "export"] {
        let (ok, _, errors) = setpoint(&["store", command], &nowhere);
        assert!(!ok && errors.contains("is not a directory"), "{command}: {errors}");
    }
    assert!(!nowhere.exists());
    let file = dir.path().join("file");
    fs::File::create(&file).unwrap().write_all(b"x").unwrap();
    let (ok, _, errors) = setpoint(&["up"], &file);
    assert!(!ok && errors.starts_with("setpoint: cannot create "), "{errors}");
    let input = file.to_str().unwrap();
    let (ok, _, errors) = setpoint(&["store", "import", "--input", input], &nowhere);
    assert!(!ok && errors.contains("not a setpoint export"), "{errors}");
}
