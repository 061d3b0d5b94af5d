//! What the meters tell against what was done: bytes read and owed under changing plans, experts layer by layer against the
//! reads of the files, slots and waits while reads stand still, where a token's time went, rates over given time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k3::checkpoint::{Checkpoint, ExpertAt};
use k3::engine::{Activity, Rates, TelemetryCell};
use k3::kernels::Isa;
use k3::model::{Compute, Network, State, Want};
use k3::stream::faulty::{Fault, Gate, When};
use k3::stream::{
    BLOCK, ExpertStore, Experts, Files, Meters, PassPlan, SlotState, Span, StreamedTrunk,
    TrunkPlan, Wanted,
};
use support::streams::{Recorder, Shared, Streaming, walk_through};

const SEGMENT: u64 = 4096;
const SECOND: Duration = Duration::from_secs(1);

fn network(model: &Streaming, files: Files, plan: &TrunkPlan, slots: usize) -> Network {
    let compute = Compute::new(2, Isa::detect()).unwrap();
    Network::over_files(
        &model.checkpoint,
        files,
        model.blueprint(),
        plan,
        slots,
        compute,
    )
    .unwrap()
}

/// Passes of one token each; the last one is known to be the last.
fn passes(network: &mut Network, state: &mut State, count: usize) {
    for left in (0..count).rev() {
        network.expect_more(left > 0);
        network.feed(state, &[left as u32 + 3], Want::Last).unwrap();
    }
}

/// Waits, without sleeping, for what other threads are about to do.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn what_was_read_is_what_was_owed_under_every_plan() {
    let model = Streaming::small();
    let walk = model.blueprint().walk;
    let plans = [
        (model.trunk_plan(SEGMENT, 4, |i| i % 3 == 0), 3),
        (model.trunk_plan(2 * SEGMENT, 2, |_| false), 5),
        (TrunkPlan::resident(&walk), 3),
        (model.trunk_plan(SEGMENT, 1, |i| i % 2 == 0), 12),
    ];
    let mut network = network(&model, model.plain_files(), &plans[0].0, plans[0].1);
    let meters = Arc::clone(network.meters());
    let mut state = network.new_state(64).unwrap();
    let (mut owed, mut experts) = (0, 0);
    for (number, (plan, slots)) in plans.iter().enumerate() {
        if number > 0 {
            network.replan(plan, *slots).unwrap();
        }
        let reading = meters.read(Instant::now());
        let pinned = reading.trunk.bytes_pinned;
        let resident = plan.pinned.iter().all(|pinned| *pinned);
        assert_eq!(pinned == walk.bytes(), resident);
        assert_eq!(
            reading.slots.len(),
            if resident { 0 } else { plan.ring_slots }
        );
        owed += pinned;
        assert_eq!(reading.trunk_bytes_owed, owed, "pins are owed at once");
        assert!(reading.experts.requests >= experts, "figures go on");

        passes(&mut network, &mut state, 5);
        owed += 5 * (walk.bytes() - pinned);
        let reading = meters.read(Instant::now());
        assert_eq!(
            (reading.trunk.bytes_read, reading.trunk_bytes_owed),
            (owed, owed),
            "plan {number}"
        );
        // The same figures as the seam's.
        assert_eq!(reading.trunk, network.trunk_counters());
        assert_eq!(reading.experts, network.expert_counters());
        experts = reading.experts.requests;
        // Layer by layer the pins are those of the plan.
        for layer in &reading.layers {
            let share = layer.pinned.unwrap();
            assert_eq!(share == 1.0, resident, "{share}");
        }
    }
    // Four plans, five passes, three experts in each of the layers that have some.
    assert_eq!(experts, 4 * 5 * 3 * 3);
}

/// Reads of each expert that the files saw: layer, and how many.
fn seen(checkpoint: &Checkpoint, recorders: &[Arc<Recorder>], layer: usize) -> u64 {
    let bytes = checkpoint.expert_layout().bytes() as usize;
    let reads = (0..checkpoint.config().moe.experts).map(|expert| {
        let place = checkpoint.expert(layer, expert).unwrap();
        let ExpertAt::Run { offset } = place.at else {
            panic!("synthetic experts stand in one run");
        };
        let span = Span::around(offset, bytes).unwrap();
        let seen = recorders[usize::from(place.shard)].seen.lock().unwrap();
        seen.get(&(span.start, span.bytes)).copied().unwrap_or(0) as u64
    });
    reads.sum()
}

#[test]
fn experts_are_counted_layer_by_layer_as_the_files_saw_them() {
    let model = Streaming::small();
    let recorders = Mutex::new(Vec::new());
    let files = model.files(true, |file| {
        let file = Arc::new(Recorder::new(file));
        recorders.lock().unwrap().push(Arc::clone(&file));
        Box::new(Shared(file))
    });
    let recorders = recorders.into_inner().unwrap();
    let plan = TrunkPlan::resident(&model.blueprint().walk);
    let mut network = network(&model, files, &plan, 14);
    let mut state = network.new_state(64).unwrap();
    let count = 12;
    passes(&mut network, &mut state, count);

    let reading = network.meters().read(Instant::now());
    let config = model.checkpoint.config();
    let mut kept = 0;
    for (number, layer) in reading.layers.iter().enumerate() {
        assert!(layer.time.is_some_and(|(time, waited)| waited <= time));
        if config.is_dense(number) {
            assert_eq!((layer.requested, layer.last), (0, None));
            continue;
        }
        assert_eq!(layer.requested, (count * config.moe.top_k) as u64);
        assert_eq!(
            layer.read,
            seen(&model.checkpoint, &recorders, number),
            "layer {number}"
        );
        assert_eq!(layer.retained + layer.read, layer.requested);
        let (requested, retained) = layer.last.unwrap();
        assert_eq!(requested, config.moe.top_k as u64);
        assert!(retained <= requested && layer.drops == 0);
        kept += layer.retained;
    }
    assert!(kept > 0, "some experts stay in 14 slots");
    let each = model.checkpoint.expert_layout().bytes();
    assert_eq!(reading.experts_retained, kept);
    assert_eq!(reading.experts.requests, kept + reading.experts_read);
    assert_eq!(
        reading.experts.bytes_requested,
        reading.experts.requests * each
    );
    assert_eq!(reading.experts.bytes_read, reading.experts_read * each);
}

/// Whether a wait goes on, and for what: it grows with the time that a reader says it is.
fn waiting(meters: &Meters) -> [bool; 3] {
    let now = Instant::now();
    let (then, later) = (meters.read(now).waits, meters.read(now + SECOND).waits);
    let grown = later.since(&then);
    [grown.trunk, grown.experts, grown.embedding].map(|grown| grown == SECOND)
}

/// A ring of three slots; the read of the second segment brings a third of its first run, then stands still.
#[test]
fn slots_and_waits_are_told_while_a_read_stands_still() {
    let model = Streaming::twenty_mb();
    let walk = model.blueprint().walk;
    let limit = walk.segment_bytes();
    let plan = model.trunk_plan(limit, 3, |_| false);
    let segments = walk.segments(limit);
    let run = &segments[1][0];
    let tensor = walk.tensor(run);
    let row_bytes = 2 * tensor.columns;
    let (shard, first) = model.place(&tensor.name);
    let (offset, len) = (
        first + (run.rows.start * row_bytes) as u64,
        run.rows.len() * row_bytes,
    );
    let middle = offset + len as u64 / 2;
    let (files, handles) = model.faulty_files();
    let gate = Gate::new();
    let third = len / 3;
    let pad = (offset % BLOCK as u64) as usize;
    let within = || When::Within(middle..middle + 1);
    handles[shard].fail(within(), 1, Fault::Short(pad + third));
    handles[shard].fail(within(), 1, Fault::Stall(gate.clone()));

    let meters = Meters::new(7);
    let mut trunk = StreamedTrunk::metered(
        Arc::clone(&model.checkpoint),
        &walk,
        &plan,
        files,
        Arc::clone(&meters),
    )
    .unwrap();
    let slots = || meters.read(Instant::now()).slots;
    assert_eq!(slots(), [SlotState::Empty; 3]);
    std::thread::scope(|scope| {
        let computing = scope.spawn(|| {
            let last = PassPlan {
                head: true,
                more: false,
            };
            walk_through(&mut trunk, &walk, last).unwrap();
        });
        gate.wait_for(1);
        // The first segment was used and given back, and the computation stands before the second. The third and the
        // fourth are there.
        let whole: usize = segments[1]
            .iter()
            .map(|run| 2 * run.rows.len() * walk.tensor(run).columns)
            .sum();
        let percent = (third * 100 / whole) as u8;
        assert!(percent > 5, "{percent}");
        let reading = SlotState::Reading { percent };
        until("the ring stands still", || {
            let mut told = slots();
            told.sort_by_key(|slot| *slot != reading);
            told == [reading, SlotState::Ready, SlotState::Ready]
                && waiting(&meters) == [true, false, false]
        });
        let stands = meters.read(Instant::now());
        assert!(stands.trunk.bytes_read > stands.trunk_bytes_owed);
        gate.open();
        computing.join().unwrap();
    });
    assert_eq!(waiting(&meters), [false; 3]);
    let after = meters.read(Instant::now());
    assert!(after.waits.trunk > Duration::ZERO);
    assert_eq!(after.trunk.bytes_read, walk.bytes());
    assert_eq!(after.trunk_bytes_owed, walk.bytes());
    // The last segment is held until the next pass begins.
    let held = after
        .slots
        .iter()
        .filter(|slot| **slot == SlotState::Computing);
    assert_eq!(held.count(), 1);
    drop(trunk);
    assert!(slots().is_empty());
}

#[test]
fn a_wait_for_an_expert_is_told_as_such() {
    let model = Streaming::small();
    let (files, handles) = model.faulty_files();
    let gate = Gate::new();
    for handle in &handles {
        handle.fail(When::Within(0..u64::MAX), 9, Fault::Stall(gate.clone()));
    }
    let meters = Meters::new(4);
    let checkpoint = Arc::clone(&model.checkpoint);
    let mut store = ExpertStore::metered(checkpoint, files, 4, None, Arc::clone(&meters)).unwrap();
    let wanted = [1, 4].map(|expert| Wanted {
        expert,
        rank: 0,
        ago: 0,
    });
    store.request(2, &wanted).unwrap();
    gate.wait_for(2);
    let told = meters.read(Instant::now());
    assert_eq!(told.layers[2].last, Some((2, 0)));
    assert_eq!((told.layers[2].requested, told.layers[2].read), (2, 0));
    std::thread::scope(|scope| {
        scope.spawn(|| while store.arrived().unwrap().is_some() {});
        until("it waits", || waiting(&meters) == [false, true, false]);
        gate.open();
    });
    let told = meters.read(Instant::now());
    assert_eq!(told.layers[2].read, 2);
    assert!(told.waits.experts > Duration::ZERO && told.waits.trunk.is_zero());
}

#[test]
fn the_split_of_a_token_adds_up() {
    let model = Streaming::small();
    let plan = model.trunk_plan(SEGMENT, 2, |_| false);
    let mut network = network(&model, model.plain_files(), &plan, 3);
    let meters = Arc::clone(network.meters());
    let mut state = network.new_state(64).unwrap();
    network.feed(&mut state, &[1, 2, 3], Want::Nothing).unwrap();
    let before = meters.read(Instant::now());
    assert_eq!(
        before.last_token, None,
        "a pass without logits makes no token"
    );

    network.expect_more(false);
    let began = Instant::now();
    let mut pass = network.begin(&mut state, &[7], Want::Last).unwrap();
    for layer in 1..=network.layer_count() {
        network.advance(&mut pass, &mut state).unwrap();
        let told = meters.read(Instant::now());
        assert_eq!(told.layer, Some(layer));
        assert!(told.elapsed.is_some_and(|time| time <= began.elapsed()));
    }
    let left = Instant::now();
    until("a while between two layers", || {
        left.elapsed() > Duration::from_millis(2)
    });
    let between = left.elapsed();
    network.finish(pass, &mut state).unwrap();
    let outside = began.elapsed();

    let after = meters.read(Instant::now());
    let split = after.last_token.unwrap();
    assert_eq!((split.positions, after.elapsed), (1, None));
    // Every part is what the meters saw between the beginning and the end, and what is left is the time between layers.
    assert_eq!(split.waited, after.waits.since(&before.waits));
    assert_eq!(split.computed, after.computed - before.computed);
    assert!(split.rest >= between, "{split:?} {between:?}");
    assert!(split.wall() <= outside, "{split:?} {outside:?}");
    assert!(!split.computed.is_zero() && !split.waited.embedding.is_zero());
    // Layers are part of it.
    let layers: Duration = after.layers.iter().map(|l| l.time.unwrap().0).sum();
    assert!(layers <= split.computed + split.waited.total());
}

#[test]
fn rates_are_those_of_the_time_that_went_by() {
    let model = Streaming::small();
    let plan = model.trunk_plan(SEGMENT, 2, |_| false);
    let mut network = network(&model, model.plain_files(), &plan, 3);
    let mut state = network.new_state(64).unwrap();
    let cell = TelemetryCell::default();
    cell.watch(network.meters());
    let (mut reader, start) = (cell.reader(), Instant::now());
    network.expect_more(false);

    cell.set(|t| t.activity = Activity::Decode);
    assert_eq!(reader.read(start).trunk, Rates::default());
    let mut last = (0, 0);
    for second in 1..=10 {
        let before = (
            network.trunk_counters().bytes_read,
            network.expert_counters().bytes_read,
        );
        network.feed(&mut state, &[second + 1], Want::Last).unwrap();
        let told = reader.read(start + second * SECOND);
        let read = (
            network.trunk_counters().bytes_read,
            network.expert_counters().bytes_read,
        );
        let gb = |bytes: u64, seconds: u32| bytes as f64 / f64::from(seconds) / 1e9;
        assert_eq!(told.trunk.second, Some(gb(read.0 - before.0, 1)));
        assert_eq!(told.trunk.ten, (second >= 5).then(|| gb(read.0, second)));
        if second > 1 {
            assert_eq!(told.experts.second, Some(gb(read.1 - before.1, 1)));
        }
        last = read;
    }
    let told = reader.read(start + 10 * SECOND);
    let bytes = told.trunk_bytes.unwrap();
    assert_eq!((bytes.read, bytes.owed, bytes.pinned), (last.0, last.0, 0));
    let figures = told.expert_figures.unwrap();
    assert_eq!(figures.read.1, last.1);
    assert_eq!(figures.requested.1, figures.retained.1 + figures.read.1);
    assert_eq!(told.layer, Some((4, 4)));
    assert_eq!(told.in_flight(), Some((0, 2)));
    // When the turn is over nothing streams: no rates, no layer. What was counted stays.
    cell.set(|t| t.activity = Activity::Idle);
    let idle = reader.read(start + 11 * SECOND);
    assert_eq!((idle.trunk, idle.experts), Default::default());
    assert_eq!((idle.layer, idle.elapsed), (None, None));
    assert_eq!(idle.expert_figures, told.expert_figures);
    assert!(idle.last_token.is_some());
}
