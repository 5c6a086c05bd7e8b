//! Tests of script evaluation.

use super::*;
use crate::behavior::env::EnvValue;

fn timeline(words: &[&str]) -> Timeline {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    evaluate(&words, BTreeMap::new(), &Env::default())
}

fn exit(words: &[&str]) -> Option<(u64, i64)> {
    timeline(words).exit.map(|(at, code)| (at.as_secs(), code))
}

#[test]
fn simple_commands_have_their_exit_codes() {
    assert_eq!(exit(&["sleep", "5"]), Some((5, 0)));
    assert_eq!(exit(&["/bin/sleep", "1m", "2s"]), Some((62, 0)));
    assert_eq!(exit(&["true"]), Some((0, 0)));
    assert_eq!(exit(&["/bin/false"]), Some((0, 1)));
    for never_ending in [&["sleep", "infinity"][..], &["nginx"], &["sh"], &["sh", "x.sh"], &["sleep", "$N"]] {
        assert_eq!(exit(never_ending), None, "{never_ending:?}");
    }
    assert_eq!(exit(&[]), Some((0, 0)));
}

#[test]
fn sequences_run_in_order() {
    let timeline = timeline(&["sh", "-c", "echo one; sleep 2 && echo 'two three'; exit 7; echo never"]);
    let at = Duration::from_secs;
    assert_eq!(timeline.exit, Some((at(2), 7)));
    assert_eq!(timeline.log, [(at(0), "one".to_owned()), (at(2), "two three".to_owned())]);
    assert_eq!(exit(&["sh", "-c", "false && sleep 9 || sleep 3"]), Some((3, 0)));
    assert_eq!(exit(&["sh", "-ec", "false || exit 3"]), Some((0, 3)));
    assert_eq!(exit(&["sh", "-c", "exec sleep 4"]), Some((4, 0)));
    assert_eq!(exit(&["sh", "-c", "sh -c 'exit 4'; exit 5"]), Some((0, 5)));
}

#[test]
fn unknown_commands_run_until_killed() {
    for script in ["while true; do sleep 1; done", "sleep 1; nginx", "a | b", "exit $(cat x)", "nginx & wait"]
    {
        assert_eq!(exit(&["sh", "-c", script]), None, "{script}");
    }
    assert_eq!(timeline(&["sh", "-c", "echo up; while true; do :; done"]).log.len(), 1);
}

#[test]
fn unknown_commands_differ_from_those_that_never_end() {
    let unknown_from = |words: &[&str]| timeline(words).unknown_from.map(|at| at.as_secs());
    for (script, expected) in [
        ("/app/prepare", Some(0)),
        ("sleep 2; nginx; sleep 3", Some(2)),
        ("set -e; if grep -q x /etc/hosts; then exit 1; fi", Some(0)),
        ("until nslookup db; do sleep 2; done", Some(0)),
        ("while true; do sleep 3; nginx; done", Some(3)),
        ("sleep 1; nginx & wait", Some(1)),
        ("sleep infinity", None),
        ("sleep 1e18d", None),
        ("tail -f /dev/null", None),
        ("tail -n0 --follow=name /var/log/x", None),
        ("tail --lines=5 /var/log/x", Some(0)),
        ("while true; do sleep 1; done", None),
        ("sleep infinity & wait", None),
        ("exec /pause", None),
        ("sleep 2; exit 1", None),
    ] {
        assert_eq!(unknown_from(&["sh", "-c", script]), expected, "{script}");
    }
    assert_eq!(
        (unknown_from(&["/app/prepare", "--now"]), unknown_from(&["sleep", "$N"])),
        (Some(0), Some(0))
    );
}

#[test]
fn branches_follow_their_condition() {
    for (script, expected) in [
        ("if true; then exit 3; fi", Some((0, 3))),
        ("if false; then exit 3; fi; sleep 2", Some((2, 0))),
        ("if [ -f /x ]; then exit 1; elif [[ a == a ]]; then sleep 4; else exit 2; fi", Some((4, 0))),
        ("touch /x\nif [ -f /x ] && true\nthen\n if false; then exit 1; else exit 5; fi\nfi", Some((0, 5))),
        ("if nginx; then exit 1; fi", None),
        ("if true; then for i in 1 2; do exit 1; done; fi", Some((0, 1))),
        ("if true; then until false; do exit 1; done; fi", None),
        ("if true; then exit 1", None),
        ("if true; then exit 1; fi | cat", None),
    ] {
        assert_eq!(exit(&["sh", "-c", script]), expected, "{script}");
    }
}

#[test]
fn loops_repeat_their_output() {
    let timeline = timeline(&["sh", "-c", "echo up; sleep 3; while true; do echo hello; sleep 2; done"]);
    assert_eq!(timeline.exit, None);
    let (logged, next) = timeline.log_until(Duration::from_secs(8));
    let times: Vec<(u64, &str)> = logged.iter().map(|(at, line)| (at.as_secs(), *line)).collect();
    assert_eq!(times, [(0, "up"), (3, "hello"), (5, "hello"), (7, "hello")]);
    assert_eq!(next, Some(Duration::from_secs(9)));
    let never_ending = self::timeline(&["sh", "-c", "while :; do echo x; done"]);
    let (logged, next) = never_ending.log_until(Duration::MAX);
    assert_eq!((logged.len(), next), (0, None), "a loop without duration has no output");
}

#[test]
fn latest_lines_of_a_verbose_loop_are_kept() {
    let frequent = timeline(&["sh", "-c", "echo up; while true; do echo x; sleep 0.000001; done"]);
    let (years, turn) = (Duration::from_secs(10 * 365 * 86_400), Duration::from_micros(1));
    let (logged, next) = frequent.log_until(years);
    let lines = u32::try_from(LOG_LINES_MAX).unwrap();
    assert_eq!((logged.len(), logged.last()), (LOG_LINES_MAX, Some(&(years, "x"))));
    assert_eq!(logged.first(), Some(&(years - turn * (lines - 1), "x")));
    assert_eq!(next, Some(years + turn));
    // One line at the start, and one at the beginning of each iteration.
    assert_eq!(frequent.dropped_lines_until(years), 2 + 10 * 365 * 86_400 * 1_000_000 - LOG_LINES_MAX);
    assert_eq!(frequent.dropped_lines_until(turn), 0);
    assert_eq!(frequent.log_until(Duration::MAX).0.len(), LOG_LINES_MAX, "latest representable time");
    let script = format!("x={}; while true; do echo $x; sleep 1; done", "a".repeat(100_000));
    let verbose = timeline(&["sh", "-c", &script]);
    let (logged, next) = verbose.log_until(years);
    assert_eq!((logged.len(), logged.last().map(|(at, _)| *at)), (LOG_BYTES_MAX / 100_001, Some(years)));
    assert_eq!(next, Some(years + Duration::from_secs(1)));
}

#[test]
fn output_of_overlapping_iterations_is_ordered() {
    let timeline = timeline(&["sh", "-c", "while true; do sleep 5 && echo late & echo early; sleep 2; done"]);
    let (logged, next) = timeline.log_until(Duration::from_secs(7));
    let times: Vec<(u64, &str)> = logged.iter().map(|(at, line)| (at.as_secs(), *line)).collect();
    assert_eq!(times, [(0, "early"), (2, "early"), (4, "early"), (5, "late"), (6, "early"), (7, "late")]);
    assert_eq!(
        (next, timeline.dropped_lines_until(Duration::from_secs(7))),
        (Some(Duration::from_secs(8)), 0)
    );
}

#[test]
fn script_creates_and_removes_files() {
    let script = "echo ok >/tmp/health; sleep 10; rm -rf /tmp/health; sleep 600";
    let timeline = timeline(&["/bin/sh", "-c", script]);
    let at = |seconds| timeline.files_at(Duration::from_secs(seconds));
    let probe = |seconds| {
        let cat = ["cat".to_owned(), "/tmp/health".to_owned()];
        evaluate(&cat, at(seconds), &Env::default()).exit
    };
    assert_eq!((probe(9), probe(10)), (Some((Duration::ZERO, 0)), Some((Duration::ZERO, 1))));
    assert_eq!(timeline.exit, Some((Duration::from_secs(610), 0)));
}

#[test]
fn output_is_redirected_to_files() {
    let timeline = timeline(&["sh", "-c", "echo -n DONE > /dev/termination-log 2>&1; echo x >/dev/null"]);
    assert_eq!(
        timeline.files_at(Duration::ZERO).get("/dev/termination-log").map(String::as_str),
        Some("DONE")
    );
    assert_eq!((timeline.log.len(), timeline.exit), (0, Some((Duration::ZERO, 0))));
}

/// Run time and exit code of a script, and its output.
fn result_of(script: &str) -> (Option<(u64, i64)>, Vec<String>) {
    let timeline = timeline(&["sh", "-c", script]);
    let end = timeline.exit.map(|(at, code)| (at.as_secs(), code));
    (end, timeline.log.into_iter().map(|(_, line)| line).collect())
}

#[test]
fn errexit_ends_at_the_first_untested_failure() {
    for (script, expected, expected_output) in [
        ("set -e\nfalse\necho never", Some((0, 1)), &[][..]),
        ("set -euo pipefail; false; echo never", Some((0, 1)), &[]),
        ("set -o errexit; sleep 3; false; echo never", Some((3, 1)), &[]),
        ("set -e; set +e; false; echo yes", Some((0, 0)), &["yes"]),
        ("set -e; false || echo yes; false && true; ! true; echo end", Some((0, 0)), &["yes", "end"]),
        ("set -e; if false; then :; fi; if ! false; then echo in; fi", Some((0, 0)), &["in"]),
        ("set -e; true && false; echo never", Some((0, 1)), &[]),
        ("set -e; sh -c 'false; echo inner'; exit 3", Some((0, 3)), &["inner"]),
        ("set -e; while true; do echo on; false; done", Some((0, 1)), &["on"]),
    ] {
        let (end, lines) = result_of(script);
        assert_eq!(
            (end, lines.iter().map(String::as_str).collect::<Vec<_>>()),
            (expected, expected_output.to_vec()),
            "{script}"
        );
    }
    for shell in
        [&["sh", "-ec"][..], &["sh", "-e", "-c"], &["bash", "-euo", "pipefail", "-c"], &["sh", "-ce"]]
    {
        assert_eq!(exit(&[shell, &["false; exit 0"]].concat()), Some((0, 1)), "{shell:?}");
    }
}

#[test]
fn bare_exit_uses_the_last_exit_code() {
    for (script, expected) in [
        ("false; exit", (0, 1)),
        ("true; exit", (0, 0)),
        ("if false; then :; else sh -c 'exit 4'; exit; fi", (0, 4)),
        ("! true", (0, 1)),
        ("! false", (0, 0)),
        ("sh -c 'exit 7'; exit $?", (0, 7)),
    ] {
        assert_eq!(result_of(script).0, Some(expected), "{script}");
    }
}

#[test]
fn background_jobs_are_waited_for() {
    for (script, expected, expected_output) in [
        ("sleep 1 & wait", Some((1, 0)), &[][..]),
        ("sleep 5 & sleep 2; echo a; wait; echo b", Some((5, 0)), &["a", "b"]),
        ("(sleep 1) & wait", None, &[]),
        ("sleep 2 && exit 3 & wait $!", Some((2, 3)), &[]),
        ("sleep 9 &", Some((0, 0)), &[]),
        ("sleep 1 && echo late & echo early; sleep 2", Some((2, 0)), &["early", "late"]),
        ("sleep 5 && echo never & sleep 2", Some((2, 0)), &[]),
    ] {
        let (end, lines) = result_of(script);
        assert_eq!(
            (end, lines.iter().map(String::as_str).collect::<Vec<_>>()),
            (expected, expected_output.to_vec()),
            "{script}"
        );
    }
}

#[test]
fn variables_are_expanded() {
    let mut env = Env::default();
    env.set("N", EnvValue::known("3"));
    env.set("WORDS", EnvValue::known("a  b"));
    env.set("SECRET", EnvValue { text: "$SECRET".to_owned(), is_known: false });
    let result_of = |script: &str| {
        let words = ["sh".to_owned(), "-c".to_owned(), script.to_owned(), "me".to_owned(), "one".to_owned()];
        let timeline = evaluate(&words, BTreeMap::new(), &env);
        let lines: Vec<String> = timeline.log.into_iter().map(|(_, line)| line).collect();
        (timeline.exit.map(|(at, code)| (at.as_secs(), code)), lines.join("|"))
    };
    for (script, expected, expected_output) in [
        ("sleep $N; exit ${N}", Some((3, 3)), ""),
        ("echo $WORDS \"$WORDS\" '$WORDS' \\$N", Some((0, 0)), "a b a  b $WORDS $N"),
        ("A=$N; A=\"$A$A\"; echo $A; export B=x; echo $B$NONE.", Some((0, 0)), "33|x."),
        ("A=1 sh -c 'echo $A'; echo [$A]", Some((0, 0)), "1|[]"),
        ("echo ${A:-b c} ${N-x} $0 $1 100$", Some((0, 0)), "b c 3 me one 100$"),
        ("echo the $SECRET; exit $SECRET", None, "the $SECRET"),
        ("if [ \"$SECRET\" = x ]; then exit 1; fi", None, ""),
        ("[ $N -gt 2 ] && [ -n \"$N\" ] && [ -z \"$NONE\" ] && [ ! -f /x ] && exit 4", Some((0, 4)), ""),
        ("for i in $WORDS 'c d'; do echo $i; sleep 1; done; echo $i", Some((3, 0)), "a|b|c d|c d"),
        ("for f in *; do echo $f; done", None, ""),
        ("set -- a b; echo $2 $0; set -e c; echo $1", Some((0, 0)), "b me|c"),
        ("sleep $NONE; echo $?", Some((0, 0)), "sleep: missing operand|1"),
    ] {
        assert_eq!(result_of(script), (expected, expected_output.to_owned()), "{script}");
    }
}

#[test]
fn possibly_unset_variable_is_empty_and_unknown() {
    for (script, expected, expected_output) in [
        ("echo [$WEB_PORT] [${WEB_SERVICE_HOST}]", Some((0, 0)), "[] []"),
        ("echo ${WEB_PORT:-80} ${WEB_PORT-81}", Some((0, 0)), "80 81"),
        ("echo a; sleep $WEB_PORT; echo b", None, "a"),
        ("if [ -z \"$WEB_PORT\" ]; then exit 1; fi", None, ""),
    ] {
        let (end, lines) = result_of(script);
        assert_eq!((end, lines.join("|").as_str()), (expected, expected_output), "{script}");
    }
    assert_eq!(result_of("sleep"), (Some((0, 1)), vec!["sleep: missing operand".to_owned()]));
    assert_eq!(exit(&["sleep"]), Some((0, 1)));
}

#[test]
fn quoting_and_echo_follow_the_shell() {
    for (script, expected_output) in [
        (r#"echo "a\tb \\ \"c\" \$x""#, &[r#"a\tb \ "c" $x"#][..]),
        (r"echo -e 'a\nb'; echo 'a\nb'", &["a", "b", r"a\nb"]),
        (r"printf '%s is %d\n' a 1 b 2", &["a is 1", "b is 2"]),
        ("echo -n a; echo b; printf x; sleep 1; echo y", &["ab", "x", "y"]),
        ("echo one \\\n two >&2; echo three 1>&2 2>/dev/null", &["one two", "three"]),
        ("echo", &[""]),
    ] {
        assert_eq!(result_of(script).1, expected_output, "{script}");
    }
}

#[test]
fn script_beyond_the_command_budget_runs_until_killed() {
    let digits = "0 1 2 3 4 5 6 7 8 9";
    let (mut open, mut close) = (String::new(), String::new());
    for name in ["a", "b", "c", "d", "e", "f"] {
        open += &format!("for {name} in {digits}; do ");
        close += "; done";
    }
    assert_eq!(result_of(&format!("{open} true {close}")).0, None);
}

#[test]
fn deep_nesting_is_unknown_and_does_not_overflow_the_stack() {
    let many = 20_000;
    for words in ["if ", "while ", "for i in 1; do ", "if true; then ", "if x; then y; el"] {
        assert_eq!(result_of(&words.repeat(many)).0, None, "{words}");
    }
    let elifs = format!("if false; then :; {} fi", "elif false; then :; ".repeat(many));
    assert_eq!(result_of(&elifs).0, None);
    assert_eq!(result_of(&format!("true {}", "& ".repeat(many))).0, None);
    assert_eq!(result_of(&format!("true {}", "& && true ".repeat(many))).0, None);
    assert_eq!(exit(&[&vec!["exec"; 9_999][..], &["true"]].concat()), None);
    let mut env = Env::default();
    for script in
        ["sh -c \"$X\"", "if true; then sh -c \"$X\"; fi", "while true; do sh -c \"$X\" & wait; done"]
    {
        env.set("X", EnvValue::known(script));
        let words = ["sh", "-c", "sh -c \"$X\""].map(str::to_owned);
        assert_eq!(evaluate(&words, BTreeMap::new(), &env).exit, None, "{script}");
    }
    let nested =
        |depth: usize| format!("{} exit 3; {}", "if true; then ".repeat(depth), "fi; ".repeat(depth));
    env.set("X", EnvValue::known(&nested(60).replace("exit 3", "sh -c \"$X\"")));
    let words = ["sh", "-c", "sh -c \"$X\""].map(str::to_owned);
    assert_eq!(evaluate(&words, BTreeMap::new(), &env).exit, None, "nesting across shells");
    assert_eq!((result_of(&nested(64)).0, result_of(&nested(65)).0), (Some((0, 3)), None));
    let nested = |depth: usize| vec!["exec"; depth].into_iter().chain(["false"]).collect::<Vec<&str>>();
    assert_eq!(exit(&nested(9)), Some((0, 1)));
}

#[test]
fn repeated_negations_of_a_test_are_applied() {
    for (count, code) in [(0, 0), (1, 1), (2, 0), (200_001, 1)] {
        assert_eq!(exit(&[&["test"], &vec!["!"; count][..], &["x"]].concat()), Some((0, code)), "{count}");
    }
    assert_eq!((exit(&["test", "!"]), exit(&["test", "!", "!"])), (Some((0, 0)), Some((0, 1))));
}

#[test]
fn script_beyond_the_byte_budget_runs_until_killed() {
    let doubled = |times: usize| format!("x=aaaaaaaaaaaaaaaa;{}", "x=$x$x;".repeat(times));
    assert_eq!(result_of(&format!("{} echo $x", doubled(10))).1[0].len(), 16 << 10);
    let timeline = timeline(&["sh", "-c", &format!("{} echo $x", doubled(40))]);
    assert_eq!((timeline.exit, timeline.log.len()), (None, 0));
    let (many, empties) = ("$x".repeat(100_000), "if ; then ; fi; ".repeat(1000));
    let loops = ["a", "b", "c", "d", "e", "f"].map(|name| format!("for {name} in $x; do "));
    for script in [
        format!("{} echo {many}", doubled(15)),
        format!("{} y={many}", doubled(15)),
        format!("{} echo x > {many}", doubled(15)),
        format!("{} printf \"$x%s\" {}", doubled(10), "a ".repeat(100_000)),
        format!("{} echo $x > f; cat {}", doubled(10), "f ".repeat(100_000)),
        format!("{} echo $x > f; touch {}", doubled(10), "f ".repeat(100_000)),
        format!("{} {}", doubled(15), "x=$x sh -c true; ".repeat(1000)),
        format!("{} echo $x > f; {}", doubled(10), "true & ".repeat(5000)),
        format!("{} echo $x > f; {}", doubled(10), "wait; ".repeat(5000)),
        format!("x='{}'; {}", "a ".repeat(1000), "set -- $x; true & ".repeat(3000)),
        format!("x='1 2 3 4 5 6 7 8 9'; {} {empties} {}", loops.concat(), "; done".repeat(6)),
        format!("x='1 2 3 4 5 6 7 8 9'; {} {} {}", loops.concat(), loops.concat(), "; done".repeat(12)),
    ] {
        assert_eq!(result_of(&script).0, None, "{}", &script[script.len() - 40..]);
    }
}

#[test]
fn empty_words_are_charged() {
    let empties = |times: usize| "'' ".repeat(times);
    let each =
        |name: &str, times: usize, body: &str| format!("for {name} in {}; do {body} done", empties(times));
    let inner = format!("{};", each("c", 50_000, ""));
    let middle = format!("{};", each("b", 1000, &inner));
    for script in [
        each("a", 1000, &middle),
        each("a", 1000, &format!("{};", each("b", 1000, ""))),
        each("a", 9000, &format!(": {};", empties(50_000))),
    ] {
        assert_eq!(result_of(&script).0, None, "{}", &script[script.len() - 40..]);
    }
    let few = each("a", 2, "echo \"[$a]\" '';");
    assert_eq!(result_of(&few), (Some((0, 0)), vec!["[] ".to_owned(), "[] ".to_owned()]));
}

#[test]
fn appended_file_is_kept_within_the_budget() {
    let appends = |times: usize| format!("for i in {}; do echo $BIG >> f; done", "1 ".repeat(times));
    let mut env = Env::default();
    env.set("BIG", EnvValue::known(&"x".repeat(10_000)));
    let timeline = |times: usize| {
        let words = ["sh".to_owned(), "-c".to_owned(), appends(times)];
        evaluate(&words, BTreeMap::new(), &env)
    };
    let few = timeline(10);
    assert_eq!((few.exit, few.files_at(Duration::ZERO)["f"].len()), (Some((Duration::ZERO, 0)), 100_010));
    let many = timeline(5000);
    let kept: usize = many.files.iter().filter_map(|(_, _, text)| text.as_ref()).map(String::len).sum();
    assert!(many.exit.is_none() && kept < 2 << 20, "{kept}");
}

#[test]
fn background_jobs_are_waited_for_by_pid() {
    assert_eq!(result_of("sleep 2 && exit 3 & a=$!; sleep 1 & wait $a; echo $? $a; wait $a $!").1, ["3 7"]);
    for script in ["wait 7", "true & wait 6", "true & wait 07", "true & wait 8", "true & wait x"] {
        assert_eq!(result_of(script).0, None, "{script}");
    }
    let script = format!("{} wait {}", "true & ".repeat(2000), "$! ".repeat(20_000));
    assert_eq!(result_of(&script).0, Some((0, 0)), "many background jobs");
}
