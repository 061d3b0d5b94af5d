//! How fast a file can be read past the page cache: reads of one size, several in flight, timed. It decides nothing
//! and prints nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::buffer::{BLOCK, Buffer, HUGE_PAGE, Pages};
use super::direct::ReadAt;
use super::span::read_span;
use super::{DirectFile, Error};
use crate::checkpoint::synth_values::mix;

/// Which reads follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One after the other from the start of the file, and again from the start.
    Sequential,
    /// Anywhere, on block borders; the places are the same in every run.
    Random,
}

/// One way to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Order of the reads.
    pub pattern: Pattern,
    /// Bytes of each read, a multiple of [`BLOCK`].
    pub bytes: usize,
    /// Reads outstanding at any time.
    pub in_flight: usize,
    /// Pages asked for the buffers that the reads land in.
    pub pages: Pages,
}

/// Bytes of a routed expert in the released layout: what an expert-sized read brings.
pub const EXPERT_BYTES: usize = 17_547_264;

impl Case {
    /// The cases of `k3 bench io`: chunks of two sizes, experts, and chunks into ordinary pages to compare.
    pub fn usual() -> Vec<Case> {
        let case = |pattern, bytes, in_flight| Case {
            pattern,
            bytes,
            in_flight,
            pages: Pages::Huge,
        };
        let mut cases = Vec::new();
        for bytes in [8 << 20, 32 << 20] {
            cases.extend([1, 2, 4, 8].map(|n| case(Pattern::Sequential, bytes, n)));
        }
        cases.extend([1, 4, 16].map(|n| case(Pattern::Random, EXPERT_BYTES, n)));
        cases.extend([1, 4, 8].map(|n| Case {
            pages: Pages::Ordinary,
            ..case(Pattern::Sequential, 32 << 20, n)
        }));
        cases
    }

    /// The few cases that tell what a model will get of a drive: experts with one, four and sixteen reads in flight, and
    /// segments of the trunk one after the other, as the ring asks for them.
    pub fn few() -> Vec<Case> {
        let mut cases: Vec<Case> = Self::usual()
            .into_iter()
            .filter(|case| case.pattern == Pattern::Random)
            .collect();
        cases.push(Case {
            pattern: Pattern::Sequential,
            bytes: 32 << 20,
            in_flight: 4,
            pages: Pages::Huge,
        });
        cases
    }
}

/// What one case gave.
#[derive(Clone, Debug)]
pub struct Rate {
    /// The case.
    pub case: Case,
    /// Bytes a second of each repeat, ascending; at least one.
    samples: Vec<f64>,
    /// Whether all buffers got huge pages, where the system says.
    pub huge: Option<bool>,
}

impl Rate {
    /// The middle repeat, in bytes a second (of an even number of repeats, the lower of the two in the middle).
    pub fn median(&self) -> f64 {
        self.samples[(self.samples.len() - 1) / 2]
    }

    /// The slowest repeat, in bytes a second.
    pub fn lowest(&self) -> f64 {
        self.samples[0]
    }

    /// The fastest repeat, in bytes a second.
    pub fn highest(&self) -> f64 {
        self.samples[self.samples.len() - 1]
    }
}

impl Rates {
    /// The fastest of the cases with this pattern, if there is one.
    pub fn best_of(&self, pattern: Pattern) -> Option<&Rate> {
        let of = self
            .rates
            .iter()
            .filter(|rate| rate.case.pattern == pattern);
        of.max_by(|a, b| a.median().total_cmp(&b.median()))
    }
}

/// What all cases gave.
#[derive(Clone, Debug)]
pub struct Rates {
    /// Whether the reads went past the page cache. If not, these are rates of memory, not of the drive.
    pub direct: bool,
    /// One for each case, in the order given; at least one.
    pub rates: Vec<Rate>,
}

impl Rates {
    /// The case with the highest median: what the drive can give this program.
    pub fn best(&self) -> &Rate {
        let (first, rest) = (&self.rates[0], &self.rates[1..]);
        rest.iter().fold(first, |best, rate| {
            if rate.median() > best.median() {
                rate
            } else {
                best
            }
        })
    }
}

/// Times every case `repeats` times for about `sample` each. The repeats go round over the cases, so that a drive or a
/// machine that changes its pace does not favour one of them. Buffers are resident before the clock starts.
///
/// # Errors
/// [`Error::Measure`] when there is nothing to measure or the file is shorter than a read, [`Error::Memory`],
/// [`Error::Read`].
pub fn measure_direct(
    file: &DirectFile,
    cases: &[Case],
    repeats: usize,
    sample: Duration,
) -> Result<Rates, Error> {
    measure(file, cases, repeats, sample)
}

/// As [`measure_direct`], for any file.
fn measure(
    file: &dyn ReadAt,
    cases: &[Case],
    repeats: usize,
    sample: Duration,
) -> Result<Rates, Error> {
    let refuse = |problem| Error::Measure {
        path: file.path().to_owned(),
        problem,
    };
    if cases.is_empty() || repeats == 0 {
        return Err(refuse("no reads were asked for".into()));
    }
    for case in cases {
        if case.in_flight == 0 || case.bytes == 0 || !case.bytes.is_multiple_of(BLOCK) {
            return Err(refuse(format!(
                "{} reads of {} bytes at a time cannot be measured",
                case.in_flight, case.bytes
            )));
        }
        if file.len() < case.bytes as u64 {
            return Err(refuse(format!(
                "holds {} bytes, too few to measure reads of {}; give a larger file",
                file.len(),
                case.bytes
            )));
        }
    }
    let mut rates: Vec<Rate> = cases
        .iter()
        .map(|&case| Rate {
            case,
            samples: Vec::with_capacity(repeats),
            huge: None,
        })
        .collect();
    for repeat in 0..repeats {
        for rate in &mut rates {
            let (bytes_per_s, huge) = one_sample(file, rate.case, sample)?;
            rate.samples.push(bytes_per_s);
            rate.huge = if repeat == 0 {
                huge
            } else {
                both(rate.huge, huge)
            };
        }
    }
    for rate in &mut rates {
        rate.samples.sort_unstable_by(f64::total_cmp);
    }
    Ok(Rates {
        direct: file.direct(),
        rates,
    })
}

/// Whether two answers are yes; unknown if one is.
fn both(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    Some(a? && b?)
}

/// Reads for `time`, at least once a reader; gives bytes a second and whether the buffers got huge pages.
fn one_sample(file: &dyn ReadAt, case: Case, time: Duration) -> Result<(f64, Option<bool>), Error> {
    let mut buffers = Vec::with_capacity(case.in_flight);
    for _ in 0..case.in_flight {
        // Whole huge pages, as an expert's slot stands on.
        let mut buffer = Buffer::with_pages(case.bytes.next_multiple_of(HUGE_PAGE), case.pages)?;
        buffer.touch();
        buffers.push(buffer);
    }
    let huge = buffers
        .iter()
        .map(Buffer::huge)
        .reduce(both)
        .unwrap_or_default();
    let (next, read) = (AtomicU64::new(0), AtomicU64::new(0));
    let failed = Mutex::new(None);
    let start = Instant::now();
    let started: std::io::Result<()> = std::thread::scope(|scope| {
        for buffer in &mut buffers {
            let (next, read, failed) = (&next, &read, &failed);
            let reader = std::thread::Builder::new();
            reader.spawn_scoped(scope, move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let offset = place(case, number, file.len());
                    if let Err(source) = read_span(file, offset, case.bytes, buffer.as_mut_slice())
                    {
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) =
                            Some((offset, source));
                        break;
                    }
                    read.fetch_add(case.bytes as u64, Ordering::Relaxed);
                    if start.elapsed() >= time {
                        break;
                    }
                }
            })?;
        }
        Ok(())
    });
    started.map_err(|cause| Error::Thread { cause })?;
    let seconds = start.elapsed().as_secs_f64();
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((offset, source)) => Err(Error::read(file.path(), offset, case.bytes, source)),
        None => Ok((read.into_inner() as f64 / seconds, huge)),
    }
}

/// Where the read of this number begins: whole reads inside the file, on a block border.
fn place(case: Case, number: u64, len: u64) -> u64 {
    let bytes = case.bytes as u64;
    match case.pattern {
        Pattern::Sequential => number % (len / bytes) * bytes,
        Pattern::Random => {
            let places = (len - bytes) / BLOCK as u64 + 1;
            mix(number) % places * BLOCK as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::faulty::{Fault, Faulty, When};

    fn case(pattern: Pattern, blocks: usize, in_flight: usize) -> Case {
        Case {
            pattern,
            bytes: blocks * BLOCK,
            in_flight,
            pages: Pages::Huge,
        }
    }

    /// A file of so many blocks and a few bytes more.
    fn file_of(blocks: usize) -> (tempfile::TempDir, DirectFile) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![3; blocks * BLOCK + 9]).unwrap();
        let file = DirectFile::open(&path).unwrap();
        (dir, file)
    }

    #[test]
    fn reads_stay_inside_the_file_and_go_everywhere() {
        let len = 10 * BLOCK as u64 + 9;
        let places = |case, n| {
            (0..n)
                .map(|i| place(case, i, len) / BLOCK as u64)
                .collect::<Vec<_>>()
        };
        let sequential = places(case(Pattern::Sequential, 3, 1), 7);
        assert_eq!(sequential, [0, 3, 6, 0, 3, 6, 0]);
        let mut random = places(case(Pattern::Random, 3, 1), 400);
        assert_ne!(random[..8], random[8..16]);
        random.sort_unstable();
        random.dedup();
        assert_eq!(random, [0, 1, 2, 3, 4, 5, 6, 7]);
        // A file of one read has one place.
        assert_eq!(place(case(Pattern::Random, 10, 1), 5, len), 0);
    }

    #[test]
    fn every_case_is_read_as_asked() {
        let (_dir, file) = file_of(8);
        let file = Faulty::new(file);
        let cases = [case(Pattern::Sequential, 2, 3), case(Pattern::Random, 1, 2)];
        // No time at all: every reader reads once.
        let rates = measure(&file, &cases, 5, Duration::ZERO).unwrap();
        assert_eq!(file.reads(), 5 * (3 + 2));
        assert_eq!(rates.direct, file.direct());
        for (rate, case) in rates.rates.iter().zip(cases) {
            assert_eq!(rate.case, case);
            assert_eq!(rate.samples.len(), 5);
            assert!(rate.lowest() > 0.0 && rate.highest().is_finite());
            assert!(rate.lowest() <= rate.median() && rate.median() <= rate.highest());
        }
    }

    #[test]
    fn medians_and_the_best_are_of_the_sorted_repeats() {
        let rate = |samples: &[f64]| Rate {
            case: case(Pattern::Random, 1, samples.len()),
            samples: samples.to_vec(),
            huge: None,
        };
        let rates = Rates {
            direct: true,
            rates: vec![rate(&[1.0, 4.0, 9.0]), rate(&[5.0, 6.0]), rate(&[2.0])],
        };
        assert_eq!(
            rates.rates.iter().map(Rate::median).collect::<Vec<_>>(),
            [4.0, 5.0, 2.0]
        );
        assert_eq!(rates.best().case.in_flight, 2);
        assert_eq!((rates.best().lowest(), rates.best().highest()), (5.0, 6.0));
        assert_eq!(both(Some(true), Some(false)), Some(false));
        assert_eq!(both(Some(true), None), None);
    }

    #[test]
    fn what_cannot_be_measured_is_refused_and_errors_name_the_file() {
        let (_dir, file) = file_of(4);
        let good = case(Pattern::Sequential, 1, 1);
        for cases in [
            vec![],
            vec![good, case(Pattern::Random, 5, 1)],
            vec![Case { bytes: 5, ..good }],
            vec![Case { bytes: 0, ..good }],
            vec![Case {
                in_flight: 0,
                ..good
            }],
        ] {
            let error = measure(&file, &cases, 1, Duration::ZERO).unwrap_err();
            assert!(matches!(error, Error::Measure { .. }) && error.to_string().contains("file: "));
        }
        assert!(measure(&file, &[good], 0, Duration::ZERO).is_err());
        let file = Faulty::new(file);
        file.fail(When::Nth(2), 1, Fault::Error(std::io::ErrorKind::Other));
        let error = measure(&file, &[case(Pattern::Sequential, 1, 4)], 1, Duration::ZERO);
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains("file: cannot read 4096 bytes from byte 8192"),
            "{message}"
        );
    }
}
