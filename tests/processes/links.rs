//! Links between workers and shard processes, and among these, spoilt by a proxy that lies before
//! each shard process and not before the coordinator: what passes it is data, copies and votes.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use resilin_chaos::process::plan::Way;
use resilin_chaos::process::proxy::{Proxy, Spoil};

use crate::scene::{JOB, Running, Scene, active, assert_success, stdout};

/// Comes on top of each message of a worker, so that the run is slow enough for its trouble on any
/// machine.
const SLOW: Spoil = Spoil::Delay(Duration::from_millis(8));

/// Bounds a wait that would otherwise have no end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The job on three shard processes that copy each other.
fn job() -> String {
    JOB.replace(
        "shards = 3",
        "shards = 3\nshard_processes = 3\nreplicas = 1",
    )
}

/// Trains a finished run again, which only shows its chain.
fn chain(scene: &Scene, state: &str) -> String {
    assert_success(&scene.run(&[
        "train",
        "job.toml",
        "--state",
        state,
        "--hash-chain",
        "kept",
    ]));
    scene.read("kept")
}

/// Does it to a process's connections once it has some.
fn until_spoilt(proxy: &Proxy, pid: u32, spoil: Spoil) {
    let deadline = Instant::now() + PATIENCE;
    while !proxy.spoil(pid, spoil) {
        assert!(Instant::now() < deadline, "{pid} never dialled");
        thread::yield_now();
    }
}

#[test]
fn spoilt_data_links_change_no_bit() {
    let scene = Scene::new(&job().replace("steps = 300", "steps = 200"));
    let (reference, _) = scene.reference();
    let proxy = Proxy::start().expect("a proxy");
    let coordinator = scene.start(&["coordinator", "job.toml", "--workers", "2"]);
    let join = scene.until("the coordinator answers", |_| true);
    let join = join.location.join;
    let shard = |_| {
        let gate = proxy.gate().expect("a port");
        let (listen, advertise) = (gate.target.to_string(), gate.address.to_string());
        scene.start(&[
            "shard",
            "--join",
            &join,
            "--listen",
            &listen,
            "--advertise",
            &advertise,
        ])
    };
    let shards: Vec<Running> = (0..3).map(shard).collect();
    let workers: Vec<Running> = (0..2)
        .map(|_| scene.start(&["worker", "--join", &join]))
        .collect();
    let pids = |of: &[Running]| of.iter().map(Running::pid).collect::<Vec<u32>>();
    let (workers_pids, shards_pids) = (pids(&workers), pids(&shards));
    for pid in &workers_pids {
        until_spoilt(&proxy, *pid, SLOW);
    }
    scene.until("all compute", |status| {
        active(status, 2) && status.job.step.0 >= 10
    });
    let linked: BTreeSet<u32> = proxy.peers().into_iter().collect();
    let all = workers_pids.iter().chain(&shards_pids).copied().collect();
    assert_eq!(linked, all, "workers' and shard processes' links pass it");

    let goes_on = || {
        let step = scene.until("it answers", |_| true).job.step.0;
        scene.until_step(step + 3);
    };
    // The sums under way are lost with their links, and so are copies and votes.
    for pid in workers_pids.iter().chain(&shards_pids) {
        until_spoilt(&proxy, *pid, Spoil::Cut);
        goes_on();
    }
    // Without weights a worker adds nothing; its control link keeps it alive.
    proxy.spoil(workers_pids[0], Spoil::Silence(Way::Down));
    let own = format!(":{})", workers_pids[0]);
    scene.until("it is waited for", |status| {
        let waiting = status.job.waiting.as_ref();
        waiting.is_some_and(|who| who.contains(&own))
    });
    proxy.spoil(workers_pids[0], Spoil::Heal);
    proxy.spoil(workers_pids[0], SLOW);
    goes_on();
    proxy.spoil(workers_pids[1], Spoil::Throttle(256 << 10));
    proxy.spoil(shards_pids[1], Spoil::Throttle(256 << 10));
    goes_on();
    let before = scene.until("it answers", |_| true);
    assert!(before.job.step.0 < before.job.total_steps, "too fast");
    proxy.heal_all();

    assert_success(&coordinator.output());
    for process in workers.into_iter().chain(shards) {
        assert_success(&process.output());
    }
    scene.assert_empty();
    assert_eq!(chain(&scene, "resilin-runs"), reference);
}

#[test]
fn chaos_spoils_the_links_of_workers_and_shard_processes() {
    // Faults come while the first steps are made; what lasts is over before the run is.
    let scene = Scene::new(&job().replace("steps = 300", "steps = 90"));
    let fault = |at: u32, kind: &str, choice: u32, more: &str| {
        format!("[[fault]]\nat_ms = {at}\nkind = \"{kind}\"\nchoice = {choice}\n{more}")
    };
    let plan = [
        "seed = 1\nduration_ms = 60000\n".to_owned(),
        fault(1, "cut", 0, ""),
        fault(2, "cut", 2, ""),
        fault(3, "throttle", 1, "bytes_per_s = 262144\nfor_ms = 300\n"),
        fault(4, "delay", 3, "delay_ms = 5\nfor_ms = 300\n"),
        fault(5, "silence", 4, "way = \"both\"\nfor_ms = 400\n"),
    ];
    scene.write("plan.toml", plan.concat());
    let output = scene.run(&[
        "chaos",
        "job.toml",
        "--plan",
        "plan.toml",
        "--workers",
        "2",
        "--json",
        "--state",
        "both",
    ]);
    assert_success(&output);
    let verdict: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("one object");
    let (reference, _) = scene.reference();
    assert_eq!(verdict["equal"], true, "{verdict}");
    assert_eq!(verdict["missed"], 0, "{verdict}");
    assert_eq!(verdict["unplanned_ends"], 0, "{verdict}");
    for run in ["both/quiet", "both/chaos"] {
        assert_eq!(chain(&scene, run), reference, "{run}");
    }
    scene.assert_empty();
}
