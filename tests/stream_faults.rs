//! Faults of the drive under the trunk and the experts: whatever goes wrong, a token is right or there is an error that
//! names the file; nothing hangs and nothing panics, and when the fault is gone the same network goes on.
//! `K3_CAMPAIGN=N` runs N seeds instead of a few. Wrong bytes that the drive calls good are not its subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use k3::checkpoint::layout::{self, Kind};
use k3::checkpoint::{ExpertAt, names};
use k3::model::{Error, Network, State, Want};
use k3::stream::faulty::{Fault, Faulty, Gate, When};
use k3::stream::{DirectFile, Error as StreamError, Files, ReadAt, TrunkPlan};
use support::streams::{Generated, Streaming, first_shard, generate};

const TOKENS: usize = 4;
const SEGMENT: u64 = 4096;
/// In the middle of the walk, and large enough that it has a segment to itself.
const MATRIX: &str = "self_attn.o_proj.weight";

type Handles = Vec<Arc<Faulty<DirectFile>>>;

/// A network of which every segment streams, over files that can fail.
fn streaming(model: &Streaming, ring: usize) -> (Network, Handles) {
    let (files, handles) = model.faulty_files();
    let plan = every_segment_streams(model, ring);
    (model.network(&plan, 3, 2, &files).unwrap(), handles)
}

fn every_segment_streams(model: &Streaming, ring: usize) -> TrunkPlan {
    model.trunk_plan(SEGMENT, ring, |_| false)
}

/// Where a matrix in the middle of the walk begins.
fn middle_of_walk(model: &Streaming) -> (usize, u64) {
    let walk = model.blueprint().walk;
    let mut names = walk.stages().iter().flatten().map(|tensor| &tensor.name);
    let name = names.rfind(|name| name.ends_with(MATRIX)).unwrap();
    model.place(name)
}

/// A byte in the middle of every expert of the last layer, which no neighbour's widened read reaches.
fn experts_of_the_last_layer(model: &Streaming) -> Vec<(usize, u64)> {
    let config = model.checkpoint.config();
    let place = |expert| {
        let place = model
            .checkpoint
            .expert(config.layers() - 1, expert)
            .unwrap();
        let at = match place.at {
            ExpertAt::Run { offset } => offset,
            ExpertAt::Parts { offsets } => offsets[0],
        };
        let middle = at + model.checkpoint.expert_layout().bytes() / 2;
        (usize::from(place.shard), middle)
    };
    (0..config.moe.experts).map(place).collect()
}

/// Lets every read of these places meet a fault, `times` times each.
fn fail(handles: &Handles, places: &[(usize, u64)], times: u64, fault: &Fault) {
    for &(shard, at) in places {
        handles[shard].fail(When::Within(at..at + 1), times, fault.clone());
    }
}

fn heal(handles: &Handles) {
    handles.iter().for_each(|file| file.heal());
}

fn is_right(network: &mut Network, model: &Streaming, want: &Generated) {
    let got = generate(network, &model.prompt, TOKENS).unwrap();
    assert!(got == *want);
}

/// Feeds the prompt, which must fail with a read of a file and leave the state torn.
fn fails_torn(network: &mut Network, model: &Streaming) -> Error {
    let mut state: State = network.new_state(20).unwrap();
    let failed = network.feed(&mut state, &model.prompt, Want::Last);
    let error = failed.unwrap_err();
    assert!(matches!(error, Error::Stream(_)), "{error:?}");
    assert!(!state.is_whole());
    let again = network.feed(&mut state, &[1], Want::Last);
    assert!(matches!(again, Err(Error::Torn)), "{again:?}");
    let message = error.to_string();
    let file = first_shard(model).file_name().unwrap().to_owned();
    let stem = file
        .to_str()
        .unwrap()
        .split("-0")
        .next()
        .unwrap()
        .to_owned();
    assert!(message.contains(&stem), "names the file: {message}");
    error
}

#[test]
fn a_read_that_fails_once_or_twice_is_tried_again_and_changes_nothing() {
    let model = Streaming::small();
    let want = model.plainest(TOKENS);
    let (trunk, experts) = (middle_of_walk(&model), experts_of_the_last_layer(&model));
    for kind in [ErrorKind::Other, ErrorKind::TimedOut, ErrorKind::NotFound] {
        for times in [1, 2] {
            let (mut network, handles) = streaming(&model, 4);
            fail(&handles, &[trunk], times, &Fault::Error(kind));
            fail(&handles, &experts, times, &Fault::Error(kind));
            is_right(&mut network, &model, &want);
            assert_eq!(network.expert_counters().drops, 0);
        }
    }
}

#[test]
fn interruptions_and_short_reads_are_gone_on_from() {
    let model = Streaming::small();
    let want = model.plainest(TOKENS);
    let (trunk, experts) = (middle_of_walk(&model), experts_of_the_last_layer(&model));
    for fault in [
        Fault::Error(ErrorKind::Interrupted),
        Fault::Short(4096),
        Fault::Short(4097),
    ] {
        let (mut network, handles) = streaming(&model, 2);
        // More often than a failed read is tried again.
        let times = if matches!(fault, Fault::Error(_)) {
            20
        } else {
            2
        };
        fail(&handles, &[trunk], times, &fault);
        fail(&handles, &experts, times, &fault);
        is_right(&mut network, &model, &want);
    }
}

#[test]
fn a_trunk_read_that_fails_for_good_is_an_error_and_a_healed_drive_goes_on() {
    let model = Streaming::small();
    let want = model.plainest(TOKENS);
    for ring in [1, 2, 4, 8] {
        for kind in [ErrorKind::Other, ErrorKind::NotFound] {
            let (mut network, handles) = streaming(&model, ring);
            fail(
                &handles,
                &[middle_of_walk(&model)],
                u64::MAX,
                &Fault::Error(kind),
            );
            for _ in 0..2 {
                let error = fails_torn(&mut network, &model);
                let read = matches!(error, Error::Stream(StreamError::Read { .. }));
                assert!(read, "{error:?}");
            }
            heal(&handles);
            is_right(&mut network, &model, &want);
        }
    }
}

#[test]
fn an_expert_that_fails_for_good_is_a_drop_and_a_healed_drive_goes_on() {
    let model = Streaming::small();
    let want = model.plainest(TOKENS);
    let last = model.checkpoint.config().layers() - 1;
    let (mut network, handles) = streaming(&model, 4);
    let fault = Fault::Error(ErrorKind::Other);
    fail(
        &handles,
        &experts_of_the_last_layer(&model),
        u64::MAX,
        &fault,
    );
    for drops in 1..=2 {
        let error = fails_torn(&mut network, &model);
        let of_layer =
            matches!(error, Error::Stream(StreamError::Expert { layer, .. }) if layer == last);
        assert!(of_layer, "{error:?}");
        assert_eq!(network.expert_counters().drops, drops);
    }
    heal(&handles);
    is_right(&mut network, &model, &want);
}

/// A small vector in the middle of the list, which is read when a network is opened.
fn a_vector(model: &Streaming) -> (usize, u64) {
    let config = model.checkpoint.config();
    let entries = layout::trunk(config, config.layers());
    let mut vectors = entries.iter().filter(|entry| entry.kind == Kind::Vector);
    let name = &vectors.nth(9).unwrap().name;
    model.place(name)
}

/// The embedding's row of the prompt's last token.
fn an_embedding_row(model: &Streaming) -> (usize, u64) {
    let (shard, at) = model.place(names::EMBEDDING);
    let id = u64::from(*model.prompt.last().unwrap());
    let bytes = 2 * model.checkpoint.config().hidden as u64;
    (shard, at + id * bytes)
}

/// Small vectors and rows of the embedding are read like everything else: tried again, and gone on with.
#[test]
fn vectors_and_embedding_rows_are_read_again_and_change_nothing() {
    let model = Streaming::small();
    let want = model.plainest(TOKENS);
    let faults = [
        (Fault::Error(ErrorKind::Other), 2),
        (Fault::Error(ErrorKind::TimedOut), 1),
        (Fault::Error(ErrorKind::Interrupted), 20),
        (Fault::Short(0), 2),
        (Fault::Short(1), 2),
        (Fault::Short(4097), 2),
    ];
    for (fault, times) in faults {
        let (files, handles) = model.faulty_files();
        fail(&handles, &[a_vector(&model)], times, &fault);
        let before: u64 = handles.iter().map(|file| file.reads()).sum();
        let plan = every_segment_streams(&model, 4);
        let mut network = model.network(&plan, 3, 2, &files).unwrap();
        let reads: u64 = handles.iter().map(|file| file.reads()).sum();
        assert!(reads > before, "vectors are not read through these files");
        fail(&handles, &[an_embedding_row(&model)], times, &fault);
        is_right(&mut network, &model, &want);
    }
}

/// What is wrong for good is an error that names the file, at opening for a vector, in the pass for a row; and when it is
/// right again the same network goes on.
#[test]
fn vectors_and_embedding_rows_that_fail_for_good_are_errors_that_name_the_file() {
    let model = Streaming::small();
    let want = model.plainest(TOKENS);
    let plan = every_segment_streams(&model, 4);
    let (vector, row) = (a_vector(&model), an_embedding_row(&model));
    type Breaks = fn(&Handles, (usize, u64));
    let breaks: [Breaks; 3] = [
        |handles, at| fail(handles, &[at], u64::MAX, &Fault::Error(ErrorKind::Other)),
        |handles, at| fail(handles, &[at], u64::MAX, &Fault::Short(0)),
        |handles, (shard, at)| handles[shard].cut(at + 1),
    ];
    for break_at in breaks {
        let (files, handles) = model.faulty_files();
        break_at(&handles, vector);
        let error = model.network(&plan, 3, 2, &files).err().unwrap();
        let read = matches!(error, Error::Stream(StreamError::Read { .. }));
        let path = model.checkpoint.shard_path(vector.0 as u16);
        let named = error.to_string().contains(path.to_str().unwrap());
        assert!(read && named, "{error}");
        heal(&handles);

        let mut network = model.network(&plan, 3, 2, &files).unwrap();
        break_at(&handles, row);
        let error = fails_torn(&mut network, &model);
        let path = model.checkpoint.shard_path(row.0 as u16);
        assert!(error.to_string().contains(path.to_str().unwrap()));
        heal(&handles);
        is_right(&mut network, &model, &want);
    }
}

#[test]
fn every_read_failing_is_an_error_at_opening_and_later() {
    let model = Streaming::small();
    let (files, handles) = model.faulty_files();
    let all = |handles: &Handles| {
        for file in handles {
            let fault = Fault::Error(ErrorKind::Other);
            file.fail(When::Within(0..u64::MAX), u64::MAX, fault);
        }
    };
    all(&handles);
    let resident = model.trunk_plan(SEGMENT, 0, |_| true);
    let refused = model.network(&resident, 3, 2, &files);
    assert!(matches!(
        refused,
        Err(Error::Stream(StreamError::Read { .. }))
    ));
    heal(&handles);
    let mut network = model
        .network(&every_segment_streams(&model, 4), 3, 2, &files)
        .unwrap();
    all(&handles);
    fails_torn(&mut network, &model);
    // Dropping it in this condition must not hang: its readers have failed reads in hand.
    drop(network);
}

#[test]
fn a_stalled_trunk_read_holds_up_no_other_slot_and_ends_when_it_comes() {
    let model = Streaming::small();
    let want = model.plainest(TOKENS);
    let walk = model.blueprint().walk;
    let names: Vec<_> = walk.stages().iter().flatten().map(|t| &t.name).collect();
    let at = names.iter().position(|n| n.ends_with(MATRIX)).unwrap();
    let (mut network, handles) = streaming(&model, 4);
    let (first, second) = (Gate::new(), Gate::new());
    let (shard, place) = model.place(names[at]);
    // The segment behind it is read by another slot.
    let (next_shard, next_place) = segment_after(&model, names[at]);
    handles[shard].fail(
        When::Within(place..place + 1),
        1,
        Fault::Stall(first.clone()),
    );
    handles[next_shard].fail(
        When::Within(next_place..next_place + 1),
        1,
        Fault::Stall(second.clone()),
    );
    std::thread::scope(|scope| {
        let run = scope.spawn(|| generate(&mut network, &model.prompt, TOKENS).unwrap());
        first.wait_for(1);
        // The segment behind the stalled one is being read as well.
        second.wait_for(1);
        second.open();
        first.open();
        assert!(run.join().unwrap() == want);
    });
}

/// Where the segment begins that follows the one with a matrix's first row.
fn segment_after(model: &Streaming, name: &str) -> (usize, u64) {
    let walk = model.blueprint().walk;
    let segments = walk.segments(SEGMENT);
    let with = segments.iter().position(|s| {
        s.iter()
            .any(|run| walk.tensor(run).name == *name && run.rows.start == 0)
    });
    let run = &segments[with.unwrap() + 1][0];
    let tensor = walk.tensor(run);
    let (shard, at) = model.place(&tensor.name);
    (shard, at + 2 * (run.rows.start * tensor.columns) as u64)
}

#[test]
fn stalled_experts_are_waited_for_and_change_nothing() {
    let model = Streaming::small();
    let want = model.plainest(TOKENS);
    let (mut network, handles) = streaming(&model, 4);
    let gate = Gate::new();
    let stall = Fault::Stall(gate.clone());
    fail(&handles, &experts_of_the_last_layer(&model), 1, &stall);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| generate(&mut network, &model.prompt, TOKENS).unwrap());
        gate.wait_for(2);
        gate.open();
        assert!(run.join().unwrap() == want);
    });
}

#[test]
fn files_cut_while_open_are_an_error_and_whole_ones_go_on() {
    let model = Streaming::small();
    let want = model.plainest(TOKENS);
    let (mut network, handles) = streaming(&model, 4);
    let (shard, at) = middle_of_walk(&model);
    handles[shard].cut(at + 10);
    let message = fails_torn(&mut network, &model).to_string();
    assert!(message.contains("cannot read") || message.contains("could not be read"));
    heal(&handles);
    is_right(&mut network, &model, &want);

    // The real thing, on the real file.
    let files = model.plain_files();
    let mut network = model
        .network(&every_segment_streams(&model, 4), 3, 2, &files)
        .unwrap();
    let path = model.checkpoint.shard_path(u16::try_from(shard).unwrap());
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(at + 10).unwrap();
    fails_torn(&mut network, &model);
}

/// A file deleted while it is open: where the system keeps it for us, nothing changes.
#[cfg(unix)]
#[test]
fn files_deleted_while_open_change_nothing() {
    let model = Streaming::small();
    let want = model.plainest(TOKENS);
    let (mut network, _) = streaming(&model, 4);
    for shard in 0..model.checkpoint.shard_count() {
        std::fs::remove_file(model.checkpoint.shard_path(shard)).unwrap();
    }
    is_right(&mut network, &model, &want);
}

/// A file whose reads panic in threads of this name, while it is armed.
struct Panicking {
    inner: DirectFile,
    thread: Option<&'static str>,
    armed: Arc<AtomicBool>,
}

impl ReadAt for Panicking {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        let thread = std::thread::current();
        let here = match (thread.name(), self.thread) {
            (Some(name), Some(begins)) => name.starts_with(begins),
            (None, None) => true,
            _ => false,
        };
        assert!(!(here && self.armed.load(SeqCst)), "planted in a reader");
        self.inner.read_at(offset, buf)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn direct(&self) -> bool {
        self.inner.direct()
    }

    fn path(&self) -> &std::path::Path {
        self.inner.path()
    }
}

/// Readers of the ring, of experts and of pinned segments, which have no name.
#[test]
fn a_reader_that_panics_is_an_error_and_the_next_pass_is_right() {
    let model = Streaming::small();
    let want = model.plainest(TOKENS);
    for thread in [Some("k3-trunk"), Some("k3-expert"), None] {
        let armed = Arc::new(AtomicBool::new(thread.is_none()));
        let files = model.files(true, |inner| {
            let armed = Arc::clone(&armed);
            Box::new(Panicking {
                inner,
                thread,
                armed,
            })
        });
        let plan = model.trunk_plan(SEGMENT, 2, |i| i.is_multiple_of(3));
        let opened = model.network(&plan, 3, 2, &files);
        let mut network = match (opened, thread) {
            (Ok(network), Some(_)) => network,
            (Err(error), None) => {
                let failed = matches!(error, Error::Stream(StreamError::ReaderFailed));
                assert!(failed, "{error}");
                armed.store(false, SeqCst);
                model.network(&plan, 3, 2, &files).unwrap()
            }
            (opened, thread) => panic!("{thread:?}: {:?}", opened.err()),
        };
        if thread.is_some() {
            armed.store(true, SeqCst);
            let mut state = network.new_state(20).unwrap();
            let failed = network.feed(&mut state, &model.prompt, Want::Last);
            assert!(matches!(failed, Err(Error::Stream(_))), "{failed:?}");
            assert!(!state.is_whole());
            armed.store(false, SeqCst);
        }
        is_right(&mut network, &model, &want);
    }
}

/// One seed: a plan and a rate of faults drawn from it. The right bits or an error; then healed, the right bits.
fn campaign(model: &Streaming, want: &Generated, seed: u64) -> bool {
    let pick = |of: u64, salt: u64| (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> salt) % of;
    let ring = [1, 2, 4, 8][pick(4, 40) as usize];
    let one_in = [3, 5, 11, 40][pick(4, 46) as usize];
    let every = 2 + pick(4, 52) as usize;
    let slots = 3 + pick(9, 33) as usize;
    let (files, handles): (Files, Handles) = model.faulty_files();
    let plan = model.trunk_plan(SEGMENT, ring, |i| i.is_multiple_of(every));
    let mut network = model.network(&plan, slots, 2, &files).unwrap();
    for (shard, file) in (0_u64..).zip(&handles) {
        let faults = vec![
            Fault::Error(ErrorKind::Other),
            Fault::Error(ErrorKind::Interrupted),
            Fault::Short(0),
            Fault::Short(1),
            Fault::Short(4096),
            Fault::Error(ErrorKind::TimedOut),
        ];
        file.fail_by_seed(seed ^ shard, one_in, faults);
    }
    let right = match generate(&mut network, &model.prompt, TOKENS) {
        Ok(got) => {
            assert!(got == *want, "seed {seed}: wrong bits, and no error");
            true
        }
        Err(error) => {
            assert!(matches!(error, Error::Stream(_)), "seed {seed}: {error}");
            false
        }
    };
    heal(&handles);
    let healed = generate(&mut network, &model.prompt, TOKENS).unwrap();
    assert!(healed == *want, "seed {seed}: wrong bits after healing");
    right
}

#[test]
fn random_faults_never_give_a_wrong_token() {
    let seeds = std::env::var("K3_CAMPAIGN")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(24);
    let model = Streaming::small();
    let want = model.plainest(TOKENS);
    let right = (0..seeds)
        .filter(|&seed| campaign(&model, &want, seed))
        .count();
    println!("{seeds} seeds: {right} with the right bits, the others ended in an error");
}
