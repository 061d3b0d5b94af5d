//! The exactness matrix: whatever the memory plan, the ring, the cache, the threads, the instruction set, the chunks of the
//! prompt, the files, the way of reading and a change of plan in the middle, a model gives the same bits. On four small models
//! of odd shapes `K3_CAMPAIGN=N` runs N combinations each; on one with a trunk of 1.5 GB an ignored test runs a covering set.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use k3::kernels::Isa;
use k3::stream::TrunkPlan;
use support::draw::XorShift;
use support::models;
use support::packs;
use support::streams::{Generated, Middle, Streaming, generate_through};

/// How many values each factor has: trunk, ring, cache, threads, direct, what happens half way, files, instruction set, chunk.
const VALUES: [usize; FACTORS] = [4, 4, 3, 3, 2, 3, 3, 3, 3];
const FACTORS: usize = 9;
const TOKENS: usize = 16;
const SEED: u32 = 20_261_129;
/// Rows on each of the three smaller models in every run.
const FEW: usize = 8;
/// The smaller models' trunks are cut into segments so small that they stream.
const SEGMENT: u64 = 4096;

type Row = [usize; FACTORS];

/// Every combination.
fn every_row() -> Vec<Row> {
    let mut rows = vec![[0; FACTORS]];
    for (factor, &values) in VALUES.iter().enumerate() {
        rows = rows
            .into_iter()
            .flat_map(|row| {
                (0..values).map(move |value| {
                    let mut row = row;
                    row[factor] = value;
                    row
                })
            })
            .collect();
    }
    rows
}

/// The pairs of values that a row has.
fn pairs(row: &Row) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..FACTORS).flat_map(move |a| (a + 1..FACTORS).map(move |b| (a, row[a], b, row[b])))
}

/// Every combination in a seeded order.
fn shuffled_rows(seed: u32) -> Vec<Row> {
    let mut all = every_row();
    let mut random = XorShift::new(seed);
    for i in (1..all.len()).rev() {
        all.swap(i, random.bits() as usize % (i + 1));
    }
    all
}

/// Rows in which every pair of values occurs: of some thousand, always the one that brings most new pairs.
fn covering_rows(seed: u32) -> Vec<Row> {
    let mut some = shuffled_rows(seed);
    some.truncate(3000);
    let mut missing: std::collections::BTreeSet<_> = some.iter().flat_map(pairs).collect();
    let mut rows = Vec::new();
    while !missing.is_empty() {
        let new = |row: &Row| pairs(row).filter(|p| missing.contains(p)).count();
        let best = *some.iter().max_by_key(|row| new(row)).unwrap();
        for pair in pairs(&best) {
            missing.remove(&pair);
        }
        rows.push(best);
    }
    rows
}

/// So many rows: the covering ones, then others.
fn rows(seed: u32, count: usize) -> Vec<Row> {
    let mut rows = covering_rows(seed);
    for row in shuffled_rows(seed) {
        if rows.len() >= count {
            break;
        }
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows.truncate(count);
    rows
}

#[test]
fn every_pair_of_values_occurs_in_few_rows() {
    let rows = covering_rows(SEED);
    for (a, &values_a) in VALUES.iter().enumerate() {
        for (b, &values_b) in VALUES.iter().enumerate().skip(a + 1) {
            for (x, y) in (0..values_a).flat_map(|x| (0..values_b).map(move |y| (x, y))) {
                let there = rows.iter().any(|row| row[a] == x && row[b] == y);
                assert!(there, "{a}={x} {b}={y}");
            }
        }
    }
    assert!((16..40).contains(&rows.len()), "{} rows", rows.len());
}

/// A model, packs of it of both kinds, and what its plainest run gives.
struct Bench {
    name: &'static str,
    model: Streaming,
    ours: tempfile::TempDir,
    theirs: tempfile::TempDir,
    want: Generated,
    /// Bytes of all of the trunk, and of all expert slots.
    all: (u64, u64),
    /// Whether the memory plan cuts the trunk; else it is cut into [`SEGMENT`]s.
    planned: bool,
}

impl Bench {
    fn new(name: &'static str, model: Streaming, planned: bool) -> Self {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        packs::write(&model.checkpoint, ours.path()).unwrap();
        packs::write_c_engine(&model.checkpoint, theirs.path(), true);
        let shape = model.blueprint().shape();
        let want = model.plainest(TOKENS);
        let different: std::collections::BTreeSet<_> = want.ids.iter().collect();
        assert!(
            different.len() > 1,
            "a model that says one thing only shows little"
        );
        Self {
            name,
            ours,
            theirs,
            want,
            all: (shape.walk(), shape.store(shape.experts)),
            model,
            planned,
        }
    }

    /// What is pinned and how many expert slots there are: `trunk` of four steps from nothing to all, `cache` of three.
    fn plan(&self, trunk: usize, ring: usize, cache: usize) -> (TrunkPlan, usize) {
        let (bytes, experts) = self.all;
        if self.planned {
            let budget = [0, bytes / 10, bytes / 2, u64::MAX][trunk];
            let cache = [0, experts / 4, u64::MAX][cache];
            return self.model.budgets(budget, ring, cache);
        }
        let pinned = |segment: usize| match trunk {
            0 => false,
            1 => segment.is_multiple_of(10),
            2 => segment.is_multiple_of(2),
            _ => true,
        };
        let config = self.model.checkpoint.config();
        let all = config.moe.experts * (config.layers() - config.dense_layers);
        let slots = [4, all / 4, all][cache].max(4);
        (self.model.trunk_plan(SEGMENT, ring, pinned), slots)
    }

    /// Runs one row and compares. With `replans` a change half way is that of one network's plan. Whether the trunk streamed.
    fn check(&self, row: &Row, replans: bool) -> bool {
        let [
            budget,
            ring,
            cache,
            threads,
            direct,
            changes,
            files,
            isa,
            chunk,
        ] = *row;
        let ring = [1, 2, 4, 8][ring];
        let pack = [None, Some(self.ours.path()), Some(self.theirs.path())][files];
        // Where there are fewer instruction sets, one comes more often.
        let isas = Isa::all();
        let isa = isas[isa % isas.len()];
        let chunk = [1, 5, 64][chunk];
        let model = &self.model;
        let files = model.files_with(pack, direct == 0, |file| Box::new(file));
        let (plan, slots) = self.plan(budget, ring, cache);
        let mut network = model
            .network_with(&plan, slots, threads + 1, isa, &files)
            .unwrap();
        // The plan that it changes to is another one in every part.
        let (other, other_slots) = self.plan((budget + 1) % 4, 9 - ring, (cache + 1) % 3);
        let mut another = (changes == 1 && !replans).then(|| {
            let threads = 3 - threads;
            let isa = isas[0];
            model
                .network_with(&other, other_slots, threads, isa, &files)
                .unwrap()
        });
        let middle = match &mut another {
            Some(another) => Middle::To(another),
            None if changes > 0 => Middle::Replan(&other, other_slots),
            None => Middle::Same,
        };
        let got = generate_through(&mut network, middle, &model.prompt, chunk, TOKENS).unwrap();
        assert!(got == self.want, "{}: other bits in {row:?}", self.name);
        let counters = network.trunk_counters();
        counters.bytes_read > counters.bytes_pinned
    }
}

#[test]
fn every_plan_gives_the_same_bits() {
    let count = std::env::var("K3_CAMPAIGN").ok();
    let count: Option<usize> = count.and_then(|count| count.parse().ok());
    let models = [
        ("20 MB", Streaming::twenty_mb(), true),
        ("small", Streaming::small(), false),
        ("odd", Streaming::synthetic(&models::odd()), false),
        ("wide", Streaming::synthetic(&models::wide()), false),
    ];
    for (at, (name, model, planned)) in models.into_iter().enumerate() {
        let bench = Bench::new(name, model, planned);
        // Another order for each model, so that together they see more.
        let seed = SEED + at as u32;
        let rows = match count {
            Some(count) => rows(seed, count),
            None if at == 0 => covering_rows(seed),
            None => rows(seed, FEW),
        };
        let streamed = rows.iter().filter(|row| bench.check(row, false)).count();
        let all = every_row().len();
        println!(
            "{name}: {} combinations of {all}, seed {seed}, {streamed} streamed, none wrong",
            rows.len()
        );
        // Three of the four budgets are smaller than the trunk.
        assert!(streamed * 2 > rows.len());
    }
}

/// Takes 7 GB of the temporary folder and some minutes:
/// `cargo test --release --test exactness -- --ignored --nocapture`
#[test]
#[ignore = "takes 7 GB of the temporary folder and some minutes"]
fn a_covering_set_on_a_trunk_of_1_5_gb_gives_the_same_bits() {
    let bench = Bench::new("1.5 GB", Streaming::mid(), true);
    let (trunk, experts) = bench.all;
    println!("a trunk of {trunk} bytes, expert slots of {experts}");
    assert!(trunk > 1_400_000_000);
    let rows = covering_rows(SEED);
    let mut streamed = 0;
    for row in &rows {
        let began = std::time::Instant::now();
        let streams = bench.check(row, true);
        streamed += usize::from(streams);
        println!(
            "{row:?}: same bits, streamed: {streams}, {:.0} s",
            began.elapsed().as_secs_f64()
        );
    }
    println!("{} combinations, {streamed} streamed", rows.len());
    assert!(streamed * 2 > rows.len());
}
