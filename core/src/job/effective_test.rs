//! The effective job: it reads back to itself, names the run, and is what the documents say.

use super::job_test::read;
use super::*;

fn effective(text: &str) -> Effective {
    read(text).expect(text).1
}

#[test]
fn the_effective_job_reads_back_to_itself() {
    for text in [
        "",
        "[run]\nsteps = 60\nbatch = 96\npartitions = 12\nseed = 18446744073709551615\n\
         clip_norm = 0.1\nshuffle = \"none\"\nbits = \"off\"\nnon_finite = \"skip\"\n\
         [failure]\nlease = 2\nwait_below_min = 4\n[checkpoint]\nevery_seconds = 0\n",
    ] {
        let (job, effective) = read(text).unwrap();
        let (again, back) = read(&effective.toml()).unwrap();
        assert_eq!((&job, &effective), (&again, &back));
        assert_eq!(effective.digest(), back.digest());
        assert_eq!(effective.toml(), back.toml());
        let packed = rmp_serde::to_vec_named(&effective).unwrap();
        assert_eq!(
            rmp_serde::from_slice::<Effective>(&packed).unwrap(),
            effective
        );
    }
}

#[test]
fn keys_decide_bits_or_are_free() {
    let base = effective("");
    for free in [
        "[run]\nname = \"other\"",
        "[run]\nevaluate_every = 5",
        "[cluster]\nworkers = 2\nshards = 3\ncompute_threads = 2\nbind = false\nin_flight = 65536",
        "[checkpoint]\nevery_steps = 5\nkeep = 9",
        "[failure]\nlease = 3",
    ] {
        assert_ne!(effective(free), base, "{free}");
        assert_eq!(effective(free).digest(), base.digest(), "{free}");
        assert_eq!(base.differences(&effective(free)), Vec::<String>::new());
    }
    let mut ids = vec![base.run_id()];
    for (bits, difference) in [
        ("seed = 2", "run.seed is 1 here, 2 there"),
        ("epochs = 21", "run.epochs is 20 here, 21 there"),
        ("partitions = 8", "run.partitions is 16 here, 8 there"),
        (
            "shuffle = \"none\"",
            "run.shuffle is \"global\" here, \"none\" there",
        ),
        ("slot_level = 1", "run.slot_level is 0 here, 1 there"),
        ("block = 256", "run.block is 65536 here, 256 there"),
        ("bits = \"off\"", "run.bits is \"on\" here, \"off\" there"),
        ("clip_norm = 1", "run.clip_norm is not set here, 1.0 there"),
        (
            "clip_value = 1",
            "run.clip_value is not set here, 1.0 there",
        ),
        (
            "non_finite = \"skip\"",
            "run.non_finite is \"halt\" here, \"skip\" there",
        ),
    ] {
        let other = effective(&format!("[run]\n{bits}"));
        assert_eq!(base.differences(&other), vec![difference]);
        ids.push(other.run_id());
    }
    let longer = base.differences(&effective("[run]\nsteps = 60\nbatch = 96"));
    let expected = [
        "run.batch is 64 here, 96 there",
        "run.epochs is 20 here, not set there",
        "run.steps is not set here, 60 there",
    ];
    assert_eq!(longer, expected);
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn the_digest_is_over_the_sorted_lines() {
    let lines = "run.batch=64\nrun.bits=\"on\"\nrun.block=65536\nrun.epochs=20\n\
                 run.non_finite=\"halt\"\nrun.partitions=16\nrun.seed=1\nrun.shuffle=\"global\"\n\
                 run.slot_level=0\n";
    let digest = blake3::hash(lines.as_bytes());
    let effective = effective("");
    assert_eq!(effective.digest(), *digest.as_bytes());
    assert_eq!(effective.digest8(), digest.to_hex()[..8]);
    assert_eq!(effective.run_id().to_string(), digest.to_hex()[..16]);
}

/// The part of `docs/job-file.md` between the core's markers is what the code declares.
#[test]
fn the_reference_is_what_the_code_declares() {
    let written = include_str!("../../../docs/job-file.md");
    let (_, rest) = written
        .split_once("<!-- core: begin -->\n")
        .expect("a begin marker");
    let (written, _) = rest
        .split_once("<!-- core: end -->")
        .expect("an end marker");
    let declared = effective("").markdown();
    assert!(
        written == declared,
        "docs/job-file.md differs from the code; put this between the core markers:\n{declared}"
    );
}
