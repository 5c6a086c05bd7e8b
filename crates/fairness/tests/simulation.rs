//! Simulations in virtual time: clients send requests, the server executes them for a random time, and the waiting of
//! each client is measured.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "simulation/world.rs"]
mod world;

use std::time::Duration;

use setpoint_fairness::{Dealer, RequestWork};

use world::{Client, Measured, Pattern, Random, Simulation, level, percentile, schema};

const MILLI: Duration = Duration::from_millis(1);
const RUN: Duration = Duration::from_secs(20);
const SEEDS: std::ops::Range<u64> = 1..4;

fn client(user: &'static str, pattern: Pattern) -> Client {
    Client { user, pattern, work: RequestWork::Plain, service: MILLI * 3 }
}

/// A client that sends two hundred requests in a second.
const POLITE: Pattern = Pattern::Poisson(Duration::from_millis(5));

#[test]
fn hot_loop_does_not_double_the_99th_percentile_of_another_client() {
    for seed in SEEDS {
        let polite = client("polite", POLITE);
        let alone = Simulation::one_level(20, &[polite], seed).run(RUN);
        for connections in [50, 200] {
            let hot = client("hot", Pattern::HotLoop(connections));
            let together = Simulation::one_level(20, &[polite, hot], seed).run(RUN);
            let [before, after] = [&alone, &together].map(|measured| percentile(&measured[0].responses, 99));
            assert!(after <= before * 2, "{before:?} becomes {after:?} with {connections} connections");
            assert_eq!(together[0].rejected, 0);
            assert!(
                percentile(&together[0].waits, 99) < MILLI * 6,
                "{:?}",
                percentile(&together[0].waits, 99)
            );
            assert!(together[1].executed() > together[0].executed(), "the hot loop uses what is left");
        }
    }
}

#[test]
fn expensive_lists_in_a_hot_loop_leave_seats_to_others() {
    for seed in SEEDS {
        let polite = client("polite", POLITE);
        let lists = Client { work: RequestWork::List(10), ..client("lists", Pattern::HotLoop(100)) };
        let alone = Simulation::one_level(60, &[polite], seed).run(RUN);
        let together = Simulation::one_level(60, &[polite, lists], seed).run(RUN);
        let [before, after] = [&alone, &together].map(|measured| percentile(&measured[0].responses, 99));
        assert!(after <= before * 2, "{before:?} becomes {after:?}");
        assert!(together[1].executed() > 1000);
    }
}

#[test]
fn writes_to_watched_objects_occupy_seats_after_their_end() {
    let writer = Client { work: RequestWork::Mutating(100), ..client("writer", Pattern::HotLoop(50)) };
    let run = |writer| Simulation::one_level(20, &[writer], 1).run(RUN)[0].executed();
    let (watched, unwatched) = (run(writer), run(Client { work: RequestWork::Plain, ..writer }));
    // Three seats for 16.7 ms after 3 ms, instead of one seat for 3 ms.
    assert!(watched * 10 < unwatched, "{watched} of {unwatched}");
    assert!(watched > 2000, "lingering seats are released in time: {watched}");
}

/// Executed requests of each client, as a part of the mean.
fn shares(measured: &[Measured]) -> Vec<f64> {
    let total: usize = measured.iter().map(Measured::executed).sum();
    let mean = total as f64 / measured.len() as f64;
    measured.iter().map(|measured| measured.executed() as f64 / mean).collect()
}

#[test]
fn flows_share_a_level_equally_however_many_connections_they_have() {
    for seed in SEEDS {
        let clients = [("a", 40), ("b", 80), ("c", 160)]
            .map(|(user, connections)| client(user, Pattern::HotLoop(connections)));
        let shares = shares(&Simulation::one_level(10, &clients, seed).run(RUN));
        // A flow that shares two of its six queues loses up to a third of them.
        assert!(shares.iter().all(|share| (0.7..1.3).contains(share)), "{shares:?}");
    }
}

#[test]
fn level_borrows_from_an_idle_one_and_returns_the_seats() {
    let objects = || {
        let levels = vec![level("first", 500, (64, 6)), level("second", 500, (64, 6))];
        (vec![schema("first", "ann"), schema("second", "bob")], levels)
    };
    let current = |simulation: &Simulation, position: usize| {
        // By name: catch-all, exempt, first, second.
        simulation.controller.levels()[position + 2].lock().limits().current
    };
    let mut simulation = Simulation::new(100, objects(), &[client("ann", Pattern::HotLoop(200))], 1);
    simulation.run(Duration::from_secs(60));
    assert!(current(&simulation, 0) >= 70, "borrowed: {}", current(&simulation, 0));
    let both = [client("ann", Pattern::HotLoop(200)), client("bob", Pattern::HotLoop(200))];
    let mut simulation = Simulation::new(100, objects(), &both, 1);
    simulation.run(Duration::from_secs(60));
    let limits = [current(&simulation, 0), current(&simulation, 1)];
    assert!(limits.iter().all(|limit| (45..=55).contains(limit)), "{limits:?}");
}

#[test]
fn busy_level_does_not_delay_requests_of_another() {
    let levels = || vec![level("first", 500, (64, 6)), level("second", 500, (64, 6))];
    let objects = || (vec![schema("first", "hot"), schema("second", "polite")], levels());
    let (polite, hot) = (client("polite", POLITE), client("hot", Pattern::HotLoop(300)));
    let measured = Simulation::new(20, objects(), &[polite, hot], 1).run(RUN);
    assert!(percentile(&measured[0].waits, 99) < MILLI, "{:?}", percentile(&measured[0].waits, 99));
}

#[test]
fn exempt_requests_never_wait() {
    // Members of system:masters are exempt; here the schema of the user refers to the level.
    let objects = (vec![schema("exempt", "admin"), schema("level", "*")], vec![level("level", 100, (64, 6))]);
    let clients = [client("admin", POLITE), client("hot", Pattern::HotLoop(300))];
    let measured = Simulation::new(10, objects, &clients, 1).run(RUN);
    assert!(measured[0].executed() > 3000);
    assert!(measured[0].waits.iter().all(Duration::is_zero) && measured[0].rejected == 0);
}

#[test]
fn requests_that_wait_for_too_long_are_rejected() {
    let slow = Client { service: Duration::from_secs(5), ..client("slow", Pattern::HotLoop(30)) };
    let mut simulation = Simulation::one_level(2, &[slow], 1);
    simulation.wait_limit = Duration::from_secs(3);
    let measured = simulation.run(Duration::from_secs(60));
    assert!(measured[0].rejected > 50 && measured[0].executed() > 5, "{:?}", measured[0].rejected);
    assert!(measured[0].waits.iter().all(|wait| *wait <= Duration::from_secs(3)));
}

#[test]
fn same_seed_gives_the_same_run() {
    let clients = [client("a", POLITE), client("b", Pattern::HotLoop(30))];
    let run =
        |seed| Simulation::one_level(5, &clients, seed).run(Duration::from_secs(5))[0].responses.clone();
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn hot_flows_rarely_have_all_queues_of_another_flow() {
    let dealer = Dealer::new(128, 6).unwrap();
    let mut random = Random(42);
    let hand = |random: &mut Random| dealer.deal(random.next(), &mut Default::default()).to_vec();
    let hot: Vec<u32> = (0..4).flat_map(|_| hand(&mut random)).collect();
    let flows = 20_000;
    let squashed = (0..flows).filter(|_| hand(&mut random).iter().all(|queue| hot.contains(queue))).count();
    // Upstream's table: four elephants squash a mouse with a probability of 0.0009 % at 128 queues and a hand of 6.
    assert!(squashed <= 3, "{squashed} of {flows}");
}
