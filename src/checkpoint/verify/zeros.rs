//! Zeros in place of weights: files whose length was set before their data came have holes where it never did. Samples
//! only.

use std::fs::File;
use std::io;

use super::shard::read_exact;
use crate::checkpoint::names;

/// Bytes that are looked at in one place. Weights that a model learned are not all zero over so many.
const SAMPLE: usize = 64 << 10;
/// Places in a shard that are looked at.
const PLACES: usize = 16;

/// Where the ends of tensors are that are wide enough to be looked at.
#[derive(Default)]
pub(super) struct Places {
    /// Counted from the end of the header, in the order of the header.
    ends: Vec<u64>,
}

impl Places {
    /// Takes note of a tensor. Embedding and head are left out: rows of ids that no text has may be zero.
    pub(super) fn consider(&mut self, name: &str, start: u64, bytes: u64) {
        if bytes >= SAMPLE as u64 && name != names::EMBEDDING && name != names::LM_HEAD {
            self.ends.push(start + bytes);
        }
    }

    /// Looks at places spread evenly over the tensors, the last of them included. `base` is where the data begins. Says
    /// what is zero, if anything is.
    ///
    /// # Errors
    /// A read fails.
    pub(super) fn find(mut self, file: &File, base: u64) -> io::Result<Option<String>> {
        self.ends.sort_unstable();
        let count = self.ends.len().min(PLACES);
        let mut sample = vec![0; SAMPLE];
        let (mut zero, mut first) = (0, None);
        for i in 0..count {
            let last = self.ends.len() - 1;
            let end = self.ends[if count == 1 {
                last
            } else {
                i * last / (count - 1)
            }];
            let at = base + end - SAMPLE as u64;
            read_exact(file, &mut sample, at)?;
            if sample.iter().all(|&byte| byte == 0) {
                zero += 1;
                first = first.or(Some(at));
            }
        }
        Ok(first.map(|at| {
            format!(
                "holds nothing but zeros in {zero} of {count} places that were looked at, the first from byte {at} on: \
                 that part was never written"
            )
        }))
    }
}
