//! The walk: every weight of the trunk in the order of use, made once. Only the plan; reading is done elsewhere.

use std::ops::Range;

/// A matrix of the trunk: `rows` times `columns`, read by whole rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkTensor {
    /// Its name in the checkpoint.
    pub name: String,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Rows are cut only at multiples of this: one head's worth for `kv_b_proj`, else 1.
    pub unit: usize,
}

/// Matrices that multiply the same input, one after the other in the walk.
pub type Stage = Vec<WalkTensor>;

/// A stage's place in the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StageId(pub usize);

/// All stages of a pass, in order of use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    stages: Vec<Stage>,
}

/// Consecutive rows of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The stage that uses them.
    pub stage: StageId,
    /// Index of the tensor in its stage.
    pub tensor: usize,
    /// Its rows.
    pub rows: Range<usize>,
}

/// What is read at once and used at once: runs that follow each other in the walk, perhaps across stages.
pub type Segment = Vec<Run>;

impl Walk {
    /// Appends a stage.
    pub fn push(&mut self, stage: Stage) -> StageId {
        self.stages.push(stage);
        StageId(self.stages.len() - 1)
    }

    /// The stages in order of use.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The tensor a run belongs to.
    pub fn tensor(&self, run: &Run) -> &WalkTensor {
        &self.stages[run.stage.0][run.tensor]
    }

    /// Bytes of all matrices, two an element.
    pub fn bytes(&self) -> u64 {
        self.stages
            .iter()
            .flatten()
            .map(|t| 2 * t.rows as u64 * t.columns as u64)
            .sum()
    }

    /// The segment size that suits this walk: a 64th of it, between 64 KiB and 32 MiB, so that a small model's ring
    /// moves too.
    pub fn segment_bytes(&self) -> u64 {
        (self.bytes() / 64).clamp(64 << 10, 32 << 20)
    }

    /// Cuts the walk into segments of at most `limit` bytes each (of bf16), or of one unit of rows where that is more.
    /// The last stage, the head, begins one.
    pub fn segments(&self, limit: u64) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut segment = Segment::new();
        let mut room = limit;
        for (stage, tensors) in self.stages.iter().enumerate() {
            // The head begins a segment: a pass may end before it.
            if stage + 1 == self.stages.len() && !segment.is_empty() {
                segments.push(std::mem::take(&mut segment));
                room = limit;
            }
            for (index, tensor) in tensors.iter().enumerate() {
                let unit_bytes = 2 * (tensor.unit * tensor.columns) as u64;
                let mut row = 0;
                while row < tensor.rows {
                    if room < unit_bytes && !segment.is_empty() {
                        segments.push(std::mem::take(&mut segment));
                        room = limit;
                    }
                    let units = (room / unit_bytes).max(1) as usize;
                    let end = (row + units * tensor.unit).min(tensor.rows);
                    segment.push(Run {
                        stage: StageId(stage),
                        tensor: index,
                        rows: row..end,
                    });
                    room = room.saturating_sub(2 * ((end - row) * tensor.columns) as u64);
                    row = end;
                }
            }
        }
        if !segment.is_empty() {
            segments.push(segment);
        }
        segments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk() -> Walk {
        let tensor = |rows, columns, unit| WalkTensor {
            name: format!("{rows}x{columns}"),
            rows,
            columns,
            unit,
        };
        let mut walk = Walk::default();
        walk.push(vec![tensor(10, 8, 1), tensor(3, 8, 1)]);
        walk.push(vec![tensor(12, 4, 4)]);
        walk.push(vec![tensor(1, 1000, 1)]);
        walk
    }

    #[test]
    fn segments_cover_every_row_once_in_order_of_use() {
        let walk = walk();
        for limit in [1, 16, 40, 64, 100, 1 << 20] {
            let runs: Vec<Run> = walk.segments(limit).into_iter().flatten().collect();
            let mut rows = Vec::new();
            for run in &runs {
                rows.extend(run.rows.clone().map(|r| (run.stage.0, run.tensor, r)));
            }
            let mut want = Vec::new();
            for (s, stage) in walk.stages().iter().enumerate() {
                for (t, tensor) in stage.iter().enumerate() {
                    want.extend((0..tensor.rows).map(|r| (s, t, r)));
                }
            }
            assert_eq!(rows, want, "limit {limit}");
        }
    }

    #[test]
    fn segments_keep_to_the_limit_and_to_units() {
        let walk = walk();
        for segment in walk.segments(100) {
            let bytes: usize = segment
                .iter()
                .map(|r| 2 * r.rows.len() * walk.tensor(r).columns)
                .sum();
            assert!(bytes <= 100 || segment.len() == 1, "{segment:?}");
            for run in &segment {
                assert_eq!(run.rows.start % walk.tensor(run).unit, 0);
            }
        }
    }

    #[test]
    fn a_segment_holds_a_tensor_at_most_once() {
        for limit in [16, 100, 1000] {
            for segment in walk().segments(limit) {
                for pair in segment.windows(2) {
                    assert_ne!(
                        (pair[0].stage, pair[0].tensor),
                        (pair[1].stage, pair[1].tensor)
                    );
                }
            }
        }
    }
}
