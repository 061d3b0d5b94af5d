//! The exactness matrix: whatever the memory plan, the ring, the cache, the threads, the files, the way of reading and a
//! change of plan in the middle, a model gives the same bits. On one of about 20 MB `K3_CAMPAIGN=full` runs every
//! combination; on one with a trunk of 1.5 GB an ignored test runs a covering set.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::draw::XorShift;
use support::packs;
use support::streams::{Generated, Middle, Streaming, generate_through};

/// How many values each factor has: trunk, ring, cache, threads, direct, plan changed half way, files.
const VALUES: [usize; FACTORS] = [4, 4, 3, 2, 2, 2, 3];
const FACTORS: usize = 7;
const TOKENS: usize = 16;
const SEED: u32 = 20_261_129;

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

/// Rows in which every pair of values occurs: of a seeded order, always the one that brings most new pairs.
fn covering_rows(seed: u32) -> Vec<Row> {
    let mut all = every_row();
    let mut random = XorShift::new(seed);
    for i in (1..all.len()).rev() {
        all.swap(i, random.bits() as usize % (i + 1));
    }
    let mut missing: std::collections::BTreeSet<_> = all.iter().flat_map(pairs).collect();
    let mut rows = Vec::new();
    while !missing.is_empty() {
        let new = |row: &Row| pairs(row).filter(|p| missing.contains(p)).count();
        let best = *all.iter().max_by_key(|row| new(row)).unwrap();
        for pair in pairs(&best) {
            missing.remove(&pair);
        }
        rows.push(best);
    }
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
    assert!((16..30).contains(&rows.len()), "{} rows", rows.len());
}

/// A model, packs of it of both kinds, and what its plainest run gives.
struct Bench {
    model: Streaming,
    ours: tempfile::TempDir,
    theirs: tempfile::TempDir,
    want: Generated,
    /// Bytes of all of the trunk, and of all expert slots.
    all: (u64, u64),
}

impl Bench {
    fn new(model: Streaming) -> Self {
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
            ours,
            theirs,
            want,
            all: (shape.walk(), shape.experts * shape.expert_stride()),
            model,
        }
    }

    /// Runs one row and compares. With `replans` a change of plan is that of one network, else a move to another network,
    /// so that the threads change too. Whether the trunk streamed.
    fn check(&self, row: &Row, replans: bool) -> bool {
        let (trunk, experts) = self.all;
        let [budget, ring, cache, threads, direct, changes, files] = *row;
        let budget = [0, trunk / 10, trunk / 2, u64::MAX][budget];
        let ring = [1, 2, 4, 8][ring];
        let cache = [0, experts / 4, u64::MAX][cache];
        let pack = [None, Some(self.ours.path()), Some(self.theirs.path())][files];
        let model = &self.model;
        let files = model.files_with(pack, direct == 0, |file| Box::new(file));
        let (plan, slots) = model.budgets(budget, ring, cache);
        let mut network = model.network(&plan, slots, threads + 1, &files).unwrap();
        // The plan that it changes to is another one in every part.
        let (other, other_slots) = model.budgets(trunk / 4, 9 - ring, experts / 8);
        let mut another = (changes == 1 && !replans).then(|| {
            let threads = 2 - threads;
            model.network(&other, other_slots, threads, &files).unwrap()
        });
        let middle = match &mut another {
            Some(another) => Middle::To(another),
            None if changes == 1 => Middle::Replan(&other, other_slots),
            None => Middle::Same,
        };
        let got = generate_through(&mut network, middle, &model.prompt, TOKENS).unwrap();
        assert!(
            got == self.want,
            "{row:?}: trunk {budget}, ring {ring}, cache {cache}"
        );
        let counters = network.trunk_counters();
        counters.bytes_read > counters.bytes_pinned
    }
}

#[test]
fn every_plan_gives_the_same_bits() {
    let full = std::env::var("K3_CAMPAIGN").is_ok_and(|value| value == "full");
    let rows = if full {
        every_row()
    } else {
        covering_rows(SEED)
    };
    let bench = Bench::new(Streaming::twenty_mb());
    let streamed = rows.iter().filter(|row| bench.check(row, false)).count();
    println!(
        "{} combinations of {}, {streamed} streamed",
        rows.len(),
        every_row().len()
    );
    // Three of the four budgets are smaller than the trunk.
    assert!(streamed * 2 > rows.len());
}

/// Takes 7 GB of the temporary folder and some minutes:
/// `cargo test --release --test exactness -- --ignored --nocapture`
#[test]
#[ignore = "takes 7 GB of the temporary folder and some minutes"]
fn a_covering_set_on_a_trunk_of_1_5_gb_gives_the_same_bits() {
    let bench = Bench::new(Streaming::mid());
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
