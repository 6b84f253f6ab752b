//! Job files as people get them right and wrong, with the exact line for every refusal.

use super::*;
use crate::random::{Key as RandomKey, Purpose};
use crate::sampling::Shuffle;
use crate::time::Span;

pub(super) fn read(text: &str) -> Result<(Job, Effective), JobError> {
    let mut document = Document::parse(text)?;
    let job = Job::read(&mut document)?;
    Ok((job, document.finish()?))
}

fn refused(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

#[test]
fn a_job_that_another_process_printed_names_no_line() {
    let text = "[run]\nbatch = 0\n";
    let refusal = |document: Result<Document, JobError>| {
        let refused = Job::read(&mut document.expect("TOML")).map(drop);
        refused.expect_err("a batch has samples").to_string()
    };
    let written = refusal(Document::parse(text));
    assert!(
        written.starts_with("job file line 2, [run] batch: "),
        "{written}"
    );
    let received = refusal(Document::received(text));
    assert_eq!(received, written.replace(" line 2", ""));
}

#[test]
fn an_empty_file_is_the_default_job() {
    let (job, _) = read("").unwrap();
    assert_eq!(job, Job::default());
    let run = Run {
        name: "digits".into(),
        seed: 1,
        length: Length::Epochs(20),
        batch: 64,
        partitions: 16,
        shuffle: Shuffle::Global,
        slot_level: 0,
        block: 65_536,
        bits: Bits::On,
        clip_norm: None,
        clip_value: None,
        non_finite: NonFinite::Halt,
        evaluate_every: 1,
    };
    assert_eq!(job.run, run);
    assert_eq!(run.microbatch(), 4);
    let cluster = Cluster {
        workers: 4,
        min_workers: 1,
        max_workers: 1024,
        shards: 2,
        replicas: 0,
        shard_processes: 0,
        compute_threads: 1,
        bind: true,
        listen: "127.0.0.1:0".into(),
        api: "127.0.0.1:0".into(),
        in_flight: 32 << 20,
        mailbox: 256,
    };
    assert_eq!(job.cluster, cluster);
    let failure = Failure {
        lease: Span::from_millis(1000),
        drain_grace: Span::from_millis(10_000),
        redial_limit: Span::from_millis(60_000),
        restarts: 10,
        restart_window: Span::from_millis(60_000),
        wait_below_min: None,
        audit_rate: 0.0,
    };
    assert_eq!(job.failure, failure);
    let checkpoint = CheckpointSection {
        every_steps: None,
        every: Some(Span::from_millis(30_000)),
        keep: 3,
    };
    assert_eq!(job.checkpoint, checkpoint);
}

#[test]
fn every_mistake_is_one_line_that_names_place_and_remedy() {
    for (text, line) in [
        (
            "[run]\nseed = 3\nbacth = 64\n",
            "job file line 3, [run] bacth: unknown key; did you mean batch?",
        ),
        (
            "\n[failure]\nzzz = 1\n",
            "job file line 3, [failure] zzz: unknown key; the keys here are lease, drain_grace, \
             redial_limit, restarts, restart_window, wait_below_min, audit_rate",
        ),
        (
            "[run]\n\nbatch = \"x\"\n",
            "job file line 3, [run] batch: expected an integer (1 to 16777216), found \"x\"",
        ),
        (
            "[run]\nbatch = 0",
            "job file line 2, [run] batch: expected an integer (1 to 16777216), found 0",
        ),
        (
            "[run]\nbatch = 131072\npartitions = 131072",
            "job file line 3, [run] partitions: expected an integer (1 to 4096), found 131072",
        ),
        (
            "[run]\nseed = -1",
            "job file line 2, [run] seed: expected an integer (0 to 18446744073709551615), \
             found -1",
        ),
        (
            "[run]\nshuffle = \"gobal\"",
            "job file line 2, [run] shuffle: expected one of global, within, none, found \
             \"gobal\"; did you mean \"global\"?",
        ),
        (
            "[failure]\nlease = nan",
            "job file line 2, [failure] lease: expected a number (0.05 to 3600), found NaN",
        ),
        (
            "[run]\nclip_norm = 0",
            "job file line 2, [run] clip_norm: expected a number (above 0), found 0",
        ),
        (
            "[run]\nbits = \"off\"\n[failure]\naudit_rate = 0.1",
            "job file line 4, [failure] audit_rate: 0.1 compares bits, and [run] bits is \"off\"; \
             set audit_rate to 0, or bits to \"on\"",
        ),
        (
            "[failure]\nlease = 1979-05-27",
            "job file line 2, [failure] lease: expected a number (0.05 to 3600), found a date",
        ),
        (
            "[run]\nname = \"../up\"",
            "job file line 2, [run] name: not a name; use 1 to 64 of A-Z a-z 0-9 . _ -, a letter \
             or digit first",
        ),
        (
            "[run]\nepochs = 2\nsteps = 9",
            "job file line 3, [run] steps: epochs is set too; remove one of the two",
        ),
        (
            "[run]\nbatch = 96\npartitions = 10",
            "job file line 3, [run] partitions: batch 96 over 10 partitions is not whole; use \
             batch 90 or 100, or partitions 8 or 12",
        ),
        (
            "[run]\nbatch = 7\npartitions = 16",
            "job file line 3, [run] partitions: batch 7 over 16 partitions is not whole; use \
             batch 16, or partitions 7",
        ),
        (
            "[run]\nslot_level = 5",
            "job file line 2, [run] slot_level: level 5 lies above the root of 16 partitions; use \
             0 to 4",
        ),
        (
            "[cluster]\nworkers = 9\nmax_workers = 8",
            "job file line 2, [cluster] workers: 9 is more than max_workers 8; lower it",
        ),
        (
            "[cluster]\nmin_workers = 9\nmax_workers = 8",
            "job file line 2, [cluster] min_workers: 9 is more than max_workers 8; lower it",
        ),
        (
            "[cluster]\nlisten = \"here\"",
            "job file line 2, [cluster] listen: \"here\" is no address; write host:port, as \
             127.0.0.1:0",
        ),
        (
            "[checkpoint]\nkeep = 1",
            "job file line 2, [checkpoint] keep: expected an integer (2 to 1000), found 1",
        ),
        (
            "[cluser]\nworkers = 3",
            "job file line 1, [cluser]: unknown section; did you mean [cluster]?",
        ),
        (
            "\n[shape]\n",
            "job file line 2, [shape]: unknown section; this job has [checkpoint] [cluster] \
             [failure] [run]",
        ),
        (
            "seed = 3",
            "job file line 1, seed: a key outside of every section; put it below its [section]",
        ),
        (
            "[[run]]\nseed = 3",
            "job file line 1, run: expected a section, found a list; write the name in single [ ]",
        ),
        (
            "[run]\nseed = 3\nseed = 4",
            "job file line 3: not valid TOML: duplicate key",
        ),
    ] {
        assert_eq!(refused(text), line);
    }
}

#[test]
fn sections_of_others_name_missing_and_wrong_items() {
    let width = Key::bits("width", "", "Hidden units of each layer.");
    let mut document = Document::parse("[model]\nwidth = [3, 0]\n").unwrap();
    let mut section = document.section("model");
    let error = section.integers(&width, None, 1..=9).unwrap_err();
    assert_eq!(
        error.to_string(),
        "job file line 2, [model] width: item 2: expected an integer (1 to 9), found 0"
    );
    assert_eq!(error.line(), Some(2));

    let mut document = Document::parse("[model]\nwidht = [3]\n").unwrap();
    let error = document.section("model").integers(&width, None, 1..=9);
    assert_eq!(
        error.unwrap_err().to_string(),
        "job file line 2, [model] widht: unknown key; did you mean width?"
    );

    let error = Document::empty().section("model").texts(&width, None);
    assert_eq!(
        error.unwrap_err().to_string(),
        "job file, [model] width: missing; set it (Hidden units of each layer.)"
    );

    let mut document = Document::empty();
    document.set("model", "width", "wide");
    let error = document.section("model").boolean(&width, Some(true));
    assert_eq!(
        error.unwrap_err().to_string(),
        "command line, [model] width: expected true or false, found \"wide\""
    );
}

#[test]
fn every_kind_of_key_is_read_and_written_back() {
    let key = |name| Key::bits(name, "", "A key.");
    let text = "[x]\nf = 1\ng = 1e-7\nb = true\nt = \"a\\\"\\\\\\u0007é\"\nl = [1, 2]\ns = [\"p\"]\n\
                n = 0xff\nw = [-1, \"+1\"]\n";
    let pass = |text: &str| {
        let mut document = Document::parse(text).unwrap();
        let mut section = document.section("x");
        assert_eq!(section.name(), "x");
        assert!(section.has("f") && !section.has("h"));
        assert_eq!(section.float(&key("f"), None, 0.0..=2.0).unwrap(), 1.0);
        assert_eq!(
            section.optional_float(&key("g"), 0.0..=2.0).unwrap(),
            Some(1e-7)
        );
        assert_eq!(section.optional_float(&key("h"), 0.0..=2.0).unwrap(), None);
        assert!(section.boolean(&key("b"), None).unwrap());
        assert_eq!(
            section.optional_text(&key("t")).unwrap(),
            Some("a\"\\\u{7}é".into())
        );
        assert_eq!(
            section.integers(&key("l"), None, 1..=2).unwrap(),
            vec![1, 2]
        );
        assert_eq!(section.texts(&key("s"), None).unwrap(), vec!["p"]);
        let words = section.optional_words(&key("w")).unwrap();
        assert_eq!(words, Some(vec!["-1".into(), "+1".into()]));
        assert_eq!(section.optional_words(&key("v")).unwrap(), None);
        assert_eq!(
            section.optional_integer(&key("n"), 0..=255).unwrap(),
            Some(255)
        );
        assert_eq!(
            section.choice(&key("c"), Some("p"), &["p", "q"]).unwrap(),
            "p"
        );
        assert!(!section.has("f"));
        section.finish().unwrap();
        document.finish().unwrap()
    };
    let first = pass(text);
    assert_eq!(first.value("x", "t"), Some("\"a\\\"\\\\\\u0007é\""));
    assert_eq!(first, pass(&first.toml()));
}

#[test]
fn the_command_line_overrides_the_file() {
    let mut document = Document::parse("[run]\nseed = 1\n").unwrap();
    document.set("run", "seed", u64::MAX);
    document.set("cluster", "workers", 9_i64);
    let job = Job::read(&mut document).unwrap();
    assert_eq!((job.run.seed, job.cluster.workers), (u64::MAX, 9));

    let mut document = Document::parse("[run]\nseed = 1\n").unwrap();
    document.set("run", "batch", 7_i64);
    document.set("run", "partitions", 2_i64);
    assert_eq!(
        Job::read(&mut document).unwrap_err().to_string(),
        "command line, [run] partitions: batch 7 over 2 partitions is not whole; use batch 6 or 8, \
         or partitions 1 or 7"
    );
}

#[test]
fn no_text_makes_it_panic_or_answer_in_two_lines() {
    const PIECES: [&str; 24] = [
        "[run]",
        "\n",
        "\r\n",
        "seed",
        "=",
        "1",
        "-",
        "\"",
        "'''",
        "[",
        "]",
        "{",
        "}",
        "0x",
        "e9",
        "nan",
        "batch",
        ",",
        ".",
        "#",
        "\u{0}",
        "é",
        "99999999999999999999999999",
        "1979-05-27",
    ];
    let (mut read_well, mut refused) = (0, 0);
    for seed in 0..4000 {
        let mut stream = RandomKey::new(seed, Purpose::Synthetic).stream();
        let mut text = String::new();
        if seed % 2 == 0 {
            text.push_str("[run]\nseed = 1\n");
        }
        for _ in 0..stream.below(20) {
            text.push_str(PIECES[stream.below(24) as usize]);
        }
        match read(&text) {
            Ok(_) => read_well += 1,
            Err(error) => {
                let line = error.to_string();
                assert!(
                    !line.contains('\n') && line.len() < 500,
                    "seed {seed}: {line:?}"
                );
                refused += 1;
            }
        }
    }
    assert!(
        read_well > 50 && refused > 1000,
        "{read_well} read, {refused} refused"
    );
    for deep in [
        "[".repeat(100_000),
        format!("[a]\nb = {}", "[".repeat(100_000)),
    ] {
        assert!(read(&deep).is_err());
    }
    assert_eq!(
        read(&" ".repeat(MAX_BYTES + 1)).unwrap_err().to_string(),
        "job file: 1048577 bytes; a job file has at most 1048576"
    );
}
