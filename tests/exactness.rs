//! The exactness matrix: whatever the memory plan, the ring, the cache, the threads, the way of reading and a change of plan
//! in the middle, a model of about 20 MB gives the same bits. `K3_CAMPAIGN=full` runs every combination.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::draw::XorShift;
use support::streams::{Streaming, generate_moving};

/// How many values each factor has: trunk, ring, cache, threads, direct, plan changed half way.
const VALUES: [usize; 6] = [4, 4, 3, 2, 2, 2];
const TOKENS: usize = 16;
const SEED: u32 = 20_261_129;

type Row = [usize; 6];

/// Every combination.
fn every_row() -> Vec<Row> {
    let mut rows = vec![[0; 6]];
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
    (0..6).flat_map(move |a| (a + 1..6).map(move |b| (a, row[a], b, row[b])))
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

#[test]
fn every_plan_gives_the_same_bits() {
    let full = std::env::var("K3_CAMPAIGN").is_ok_and(|value| value == "full");
    let rows = if full {
        every_row()
    } else {
        covering_rows(SEED)
    };
    let model = Streaming::twenty_mb();
    let shape = model.blueprint().shape();
    let (trunk, experts) = (shape.walk(), shape.experts * shape.expert_stride());
    let want = model.plainest(TOKENS);
    let different: std::collections::BTreeSet<_> = want.ids.iter().collect();
    assert!(
        different.len() > 1,
        "a model that says one thing only shows little"
    );
    let mut streamed = 0;
    for row in &rows {
        let [budget, ring, cache, threads, direct, moves] = *row;
        let budget = [0, trunk / 10, trunk / 2, u64::MAX][budget];
        let ring = [1, 2, 4, 8][ring];
        let cache = [0, experts / 4, u64::MAX][cache];
        let files = model.files(direct == 0, |file| Box::new(file));
        let (plan, slots) = model.budgets(budget, ring, cache);
        let mut network = model.network(&plan, slots, threads + 1, &files).unwrap();
        // The plan that it changes to is another one in every part.
        let (other, other_slots) = model.budgets(trunk / 4, 9 - ring, experts / 8);
        let mut other = (moves == 1).then(|| {
            let threads = 2 - threads;
            model.network(&other, other_slots, threads, &files).unwrap()
        });
        let got = generate_moving(&mut network, other.as_mut(), &model.prompt, TOKENS).unwrap();
        assert!(
            got == want,
            "{row:?}: trunk {budget}, ring {ring}, cache {cache}"
        );
        let counters = network.trunk_counters();
        streamed += usize::from(counters.bytes_read > counters.bytes_pinned);
    }
    println!(
        "{} combinations of {}, {streamed} streamed",
        rows.len(),
        every_row().len()
    );
    // Three of the four budgets are smaller than the trunk.
    assert!(streamed * 2 > rows.len());
}
