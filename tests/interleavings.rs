//! The ring of the trunk and the slots of the experts under one order of their threads' steps after another, drawn by seed:
//! whatever the order, the computation gets the bytes of what it asked for, nothing stands still, and nothing is read twice.
//! A run that fails prints the schedule, which `shuttle::replay` repeats. `K3_CAMPAIGN=N` draws N orders a test.
//!
//!     cargo test --features interleave --test interleavings
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use k3::checkpoint::ExpertAt;
use k3::kernels::Weights;
use k3::stream::{
    ExpertStore, Experts, Files, PassPlan, ReadAt, StageId, StreamedTrunk, Trunk, TrunkPlan, Walk,
    Wanted, open_files,
};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};
use support::streams::Streaming;

/// Orders that every run draws of each kind.
const FEW: usize = 60;
const SEED: u64 = 20_261_130;
/// About eight segments a pass.
const SEGMENT: u64 = 96 << 10;

/// A model, what is in it, and what may go wrong with its drive.
struct Bench {
    model: Streaming,
    walk: Walk,
    /// Of every tensor of the walk.
    trunk: HashMap<String, Vec<u8>>,
    /// Of the experts of the last layer, in canonical order.
    experts: Vec<Vec<u8>>,
    shards: Vec<(PathBuf, Arc<Vec<u8>>)>,
}

/// What goes wrong, by the count of reads.
#[derive(Default)]
struct Trouble {
    reads: AtomicUsize,
    /// Reads from this one on fail.
    fail_from: Option<usize>,
    /// This one panics.
    panic_at: Option<usize>,
    healed: AtomicBool,
}

/// A shard in memory. A read is two steps, so that one that goes to the wrong place is seen half done.
struct Shard {
    path: PathBuf,
    bytes: Arc<Vec<u8>>,
    trouble: Arc<Trouble>,
}

impl ReadAt for Shard {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let number = self.trouble.reads.fetch_add(1, SeqCst);
        shuttle::thread::yield_now();
        if !self.trouble.healed.load(SeqCst) {
            assert!(self.trouble.panic_at != Some(number), "planted in a reader");
            if self.trouble.fail_from.is_some_and(|from| number >= from) {
                return Err(io::ErrorKind::Other.into());
            }
        }
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buf.len());
        let half = count / 2;
        buf[..half].copy_from_slice(&rest[..half]);
        shuttle::thread::yield_now();
        buf[half..count].copy_from_slice(&rest[half..count]);
        Ok(count)
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn direct(&self) -> bool {
        false
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Bench {
    fn new() -> Arc<Self> {
        let model = Streaming::small();
        let checkpoint = &model.checkpoint;
        let read = |shard, offset, bytes: u64| {
            let mut read = vec![0; bytes as usize];
            checkpoint.read(shard, offset, &mut read).unwrap();
            read
        };
        let walk = model.blueprint().walk;
        let tensor = |name: &String| {
            let tensor = checkpoint.tensor(name).unwrap();
            (
                name.clone(),
                read(tensor.shard, tensor.offset, tensor.bytes),
            )
        };
        let trunk = walk
            .stages()
            .iter()
            .flatten()
            .map(|t| tensor(&t.name))
            .collect();
        let config = checkpoint.config();
        let expert = |number| {
            let place = checkpoint.expert(config.layers() - 1, number).unwrap();
            let ExpertAt::Run { offset } = place.at else {
                panic!("synthetic experts are runs")
            };
            read(place.shard, offset, checkpoint.expert_layout().bytes())
        };
        let experts = (0..config.moe.experts).map(expert).collect();
        let shards = (0..checkpoint.shard_count()).map(|shard| {
            let path = checkpoint.shard_path(shard).to_owned();
            let bytes = std::fs::read(&path).unwrap();
            (path, Arc::new(bytes))
        });
        Arc::new(Self {
            shards: shards.collect(),
            walk,
            trunk,
            experts,
            model,
        })
    }

    fn files(&self, trouble: &Arc<Trouble>) -> Files {
        let open = |path: &Path| -> io::Result<Box<dyn ReadAt>> {
            let (path, bytes) = self.shards.iter().find(|shard| shard.0 == path).unwrap();
            Ok(Box::new(Shard {
                path: path.clone(),
                bytes: Arc::clone(bytes),
                trouble: Arc::clone(trouble),
            }))
        };
        open_files(&self.model.checkpoint, None, &open).unwrap()
    }

    /// A trunk of which nothing is pinned.
    fn trunk(&self, ring_slots: usize, files: &Files) -> StreamedTrunk {
        let segments = self.walk.segments(SEGMENT).len();
        assert!((4..20).contains(&segments), "{segments} segments");
        let plan = TrunkPlan {
            segment_bytes: SEGMENT,
            pinned: vec![false; segments],
            ring_slots,
        };
        let checkpoint = Arc::clone(&self.model.checkpoint);
        StreamedTrunk::open(checkpoint, &self.walk, &plan, Arc::clone(files)).unwrap()
    }

    /// Walks stages and compares every byte, twice: while it is computed with, nothing may be read over it.
    fn compare(&self, trunk: &mut StreamedTrunk, stages: usize) -> Result<(), k3::stream::Error> {
        for (at, stage) in self.walk.stages().iter().take(stages).enumerate() {
            while let Some(pieces) = trunk.pieces(StageId(at))? {
                for _ in 0..2 {
                    for piece in &pieces {
                        let tensor = &stage[piece.tensor];
                        let Weights::Bf16(got) = piece.weights else {
                            panic!("the trunk is bf16")
                        };
                        let row = 2 * tensor.columns;
                        let range = piece.rows.start * row..piece.rows.end * row;
                        assert!(
                            *got.as_flattened() == self.trunk[&tensor.name][range],
                            "{}",
                            tensor.name
                        );
                    }
                    shuttle::thread::yield_now();
                }
            }
        }
        Ok(())
    }

    fn stages(&self, head: bool) -> usize {
        self.walk.stages().len() - usize::from(!head)
    }

    /// All of a pass.
    fn pass(&self, trunk: &mut StreamedTrunk, plan: PassPlan) -> Result<(), k3::stream::Error> {
        trunk.begin(plan)?;
        self.compare(trunk, self.stages(plan.head))
    }

    /// Bytes that passes read.
    fn bytes(&self) -> u64 {
        self.trunk.values().map(|bytes| bytes.len() as u64).sum()
    }

    fn store(&self, slots: usize, trunk: &StreamedTrunk, files: &Files) -> ExpertStore {
        let checkpoint = Arc::clone(&self.model.checkpoint);
        ExpertStore::new(checkpoint, Arc::clone(files), slots, trunk.gate()).unwrap()
    }

    fn layer(&self) -> usize {
        self.model.checkpoint.config().layers() - 1
    }

    /// Takes what was asked for and compares it, in whatever order it comes.
    fn take_experts(
        &self,
        store: &mut ExpertStore,
        wanted: &[usize],
    ) -> Result<(), k3::stream::Error> {
        let mut came = Vec::new();
        while let Some(arrived) = store.arrived()? {
            for _ in 0..2 {
                for (index, weights) in &arrived {
                    let want = &self.experts[wanted[*index]];
                    let layout = self.model.checkpoint.expert_layout();
                    let want = k3::stream::ExpertWeights::in_run(want, layout);
                    let same = [
                        (weights.gate, want.gate),
                        (weights.up, want.up),
                        (weights.down, want.down),
                    ]
                    .into_iter()
                    .all(|(got, want)| parts(got) == parts(want));
                    assert!(same, "expert {} is another one", wanted[*index]);
                }
                shuttle::thread::yield_now();
            }
            came.extend(arrived.iter().map(|(index, _)| *index));
        }
        came.sort_unstable();
        assert_eq!(came, (0..wanted.len()).collect::<Vec<_>>());
        Ok(())
    }

    fn ask(&self, store: &mut ExpertStore, experts: &[usize]) {
        let wanted: Vec<Wanted> = experts
            .iter()
            .enumerate()
            .map(|(rank, &expert)| Wanted {
                expert,
                rank,
                ago: 0,
            })
            .collect();
        store.request(self.layer(), &wanted).unwrap();
    }
}

fn parts(weights: Weights<'_>) -> (&[u8], &[u8]) {
    match weights {
        Weights::Mxfp4 { packed, scales } => (packed, scales),
        _ => panic!("experts are MXFP4"),
    }
}

/// Runs `test` under so many orders drawn at random, and as many in which few threads are held back for long (PCT, with
/// three changes of who is held back).
fn orders(test: impl Fn() + Send + Sync + Clone + 'static) {
    let count = std::env::var("K3_CAMPAIGN")
        .ok()
        .and_then(|n| n.parse().ok());
    let count = count.unwrap_or(FEW);
    let random = RandomScheduler::new_from_seed(SEED, count);
    let held_back = PctScheduler::new_from_seed(SEED, 3, count);
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = Config::new();
        // Reading and comparing takes more than the default.
        config.stack_size = 1 << 18;
        config.failure_persistence = FailurePersistence::Print;
        Runner::new(scheduler, config).run(test.clone())
    };
    let ran = run(Box::new(random)) + run(Box::new(held_back));
    println!("{ran} orders, seed {SEED}");
    assert_eq!(ran, 2 * count);
}

#[test]
fn every_pass_gets_its_own_bytes_and_nothing_is_read_twice() {
    let bench = Bench::new();
    for ring in [1, 3, 5] {
        let bench = Arc::clone(&bench);
        orders(move || {
            let trouble = Arc::default();
            let mut trunk = bench.trunk(ring, &bench.files(&trouble));
            let plan = |more| PassPlan { head: true, more };
            bench.pass(&mut trunk, plan(true)).unwrap();
            bench.pass(&mut trunk, plan(false)).unwrap();
            assert_eq!(trunk.counters().bytes_read, 2 * bench.bytes());
        });
    }
}

#[test]
fn a_pass_that_is_left_anywhere_leaves_no_bytes_to_the_next() {
    let bench = Bench::new();
    for ring in [1, 4, 5] {
        let bench = Arc::clone(&bench);
        orders(move || {
            let mut trunk = bench.trunk(ring, &bench.files(&Arc::default()));
            let left_at = 1 + ring * 3;
            for head in [true, false] {
                trunk.begin(PassPlan { head, more: true }).unwrap();
                bench.compare(&mut trunk, left_at).unwrap();
            }
            let last = PassPlan {
                head: true,
                more: false,
            };
            bench.pass(&mut trunk, last).unwrap();
        });
    }
}

#[test]
fn a_drive_that_fails_and_heals_gives_an_error_and_then_the_right_bytes() {
    let bench = Bench::new();
    for ring in [1, 5] {
        let bench = Arc::clone(&bench);
        orders(move || {
            let trouble = Arc::new(Trouble {
                fail_from: Some(5),
                ..Trouble::default()
            });
            let mut trunk = bench.trunk(ring, &bench.files(&trouble));
            let plan = PassPlan {
                head: true,
                more: true,
            };
            bench.pass(&mut trunk, plan).unwrap_err();
            bench.pass(&mut trunk, plan).unwrap_err();
            trouble.healed.store(true, SeqCst);
            bench.pass(&mut trunk, plan).unwrap();
        });
    }
}

#[test]
fn a_reader_that_panics_stands_in_nobodys_way() {
    let bench = Bench::new();
    orders(move || {
        let trouble = Arc::new(Trouble {
            panic_at: Some(4),
            ..Trouble::default()
        });
        let mut trunk = bench.trunk(2, &bench.files(&trouble));
        let plan = PassPlan {
            head: true,
            more: false,
        };
        bench.pass(&mut trunk, plan).unwrap_err();
        bench.pass(&mut trunk, plan).unwrap();
    });
}

#[test]
fn what_is_dropped_in_the_middle_ends() {
    let bench = Bench::new();
    orders(move || {
        let files = bench.files(&Arc::default());
        let mut trunk = bench.trunk(3, &files);
        let mut store = bench.store(5, &trunk, &files);
        trunk
            .begin(PassPlan {
                head: true,
                more: true,
            })
            .unwrap();
        bench.ask(&mut store, &[1, 4, 7, 8]);
        bench.compare(&mut trunk, 2).unwrap();
    });
}

#[test]
fn experts_are_those_that_were_asked_for_while_the_trunk_streams() {
    let bench = Bench::new();
    for slots in [4, 6] {
        let bench = Arc::clone(&bench);
        orders(move || {
            let files = bench.files(&Arc::default());
            let mut trunk = bench.trunk(2, &files);
            let mut store = bench.store(slots, &trunk, &files);
            trunk
                .begin(PassPlan {
                    head: true,
                    more: true,
                })
                .unwrap();
            // More than there are slots, some of them again, and once a request that is forgotten.
            for (number, wanted) in [
                &[0, 2, 3, 5, 8, 9][..],
                &[2, 3, 4],
                &[1, 2, 9, 10, 11],
                &[0, 3],
            ]
            .iter()
            .enumerate()
            {
                bench.ask(&mut store, wanted);
                if number == 2 {
                    let _ = store.arrived().unwrap();
                    bench.ask(&mut store, &[3, 6, 7]);
                    bench.take_experts(&mut store, &[3, 6, 7]).unwrap();
                } else {
                    bench.take_experts(&mut store, wanted).unwrap();
                }
            }
            bench.compare(&mut trunk, bench.stages(true)).unwrap();
        });
    }
}

#[test]
fn an_expert_that_fails_is_a_drop_and_no_other_expert() {
    let bench = Bench::new();
    orders(move || {
        let trouble = Arc::new(Trouble {
            fail_from: Some(3),
            ..Trouble::default()
        });
        let files = bench.files(&trouble);
        let trunk = bench.trunk(1, &files);
        let mut store = bench.store(4, &trunk, &files);
        bench.ask(&mut store, &[0, 1, 2, 3, 4, 5]);
        bench
            .take_experts(&mut store, &[0, 1, 2, 3, 4, 5])
            .unwrap_err();
        trouble.healed.store(true, SeqCst);
        bench.ask(&mut store, &[0, 2, 5, 6]);
        bench.take_experts(&mut store, &[0, 2, 5, 6]).unwrap();
    });
}
