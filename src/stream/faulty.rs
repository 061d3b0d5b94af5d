//! A file on which tests let things go wrong: errors, short reads, interruptions, wrong bytes, stalls, truncation.
//! For tests only; the program itself never wraps a file in it.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::direct::ReadAt;
use crate::checkpoint::synth_values::mix;

/// What happens to a read.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It fails and brings nothing. `Interrupted` is what a signal does.
    Error(io::ErrorKind),
    /// At most so many bytes come.
    Short(usize),
    /// Every bit that comes is the wrong one.
    Corrupt,
    /// It waits until the gate is opened, then goes on as if nothing had been.
    Stall(Gate),
}

/// Which reads a fault meets.
#[derive(Clone, Debug)]
pub enum When {
    /// The read of this number, counted from 0 over all threads.
    Nth(u64),
    /// Reads that ask for any byte of this range. Unlike numbers, it does not hang on the order of threads.
    Within(Range<u64>),
}

/// Holds stalled reads back until the test opens it. It stays open.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Debug, Default)]
struct GateState {
    open: bool,
    waiting: usize,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets through who waits and who comes later.
    pub fn open(&self) {
        lock(&self.0.0).open = true;
        self.0.1.notify_all();
    }

    /// Returns when at least `count` reads wait at the gate.
    pub fn wait_for(&self, count: usize) {
        let (state, changed) = &*self.0;
        let waited = changed.wait_while(lock(state), |state| state.waiting < count);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = lock(state);
        state.waiting += 1;
        changed.notify_all();
        let waited = changed.wait_while(state, |state| !state.open);
        waited.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
    }
}

/// A fault that is yet to happen.
struct Rule {
    when: When,
    times: u64,
    fault: Fault,
}

/// Faults drawn by a seed.
struct Drawn {
    seed: u64,
    one_in: u64,
    faults: Vec<Fault>,
}

#[derive(Default)]
struct State {
    reads: u64,
    rules: Vec<Rule>,
    drawn: Option<Drawn>,
    end: Option<u64>,
}

/// A file and the faults to come. Alignment is asked for as the file asks for it.
pub struct Faulty<R> {
    inner: R,
    state: Mutex<State>,
}

impl<R: ReadAt> Faulty<R> {
    /// A file on which nothing goes wrong yet.
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            state: Mutex::default(),
        }
    }

    /// Adds a fault for the next `times` reads that `when` names. The first that was added and fits happens.
    pub fn fail(&self, when: When, times: u64, fault: Fault) {
        lock(&self.state).rules.push(Rule { when, times, fault });
    }

    /// One read in `one_in` meets one of `faults`, the same for the same seed and number of the read.
    pub fn fail_by_seed(&self, seed: u64, one_in: u64, faults: Vec<Fault>) {
        lock(&self.state).drawn = Some(Drawn {
            seed,
            one_in,
            faults,
        });
    }

    /// Cuts the file at `end` bytes, as someone may do while it is open: its length at opening stays what it was.
    pub fn cut(&self, end: u64) {
        lock(&self.state).end = Some(end);
    }

    /// Nothing goes wrong from now on; reads that stand at a gate stay there until it is opened.
    pub fn heal(&self) {
        let mut state = lock(&self.state);
        state.rules.clear();
        state.drawn = None;
        state.end = None;
    }

    /// Reads asked for so far, failed ones included.
    pub fn reads(&self) -> u64 {
        lock(&self.state).reads
    }
}

impl State {
    /// Counts a read of `wanted`, and says what happens to it.
    fn next_fault(&mut self, wanted: &Range<u64>) -> Option<Fault> {
        let number = self.reads;
        self.reads += 1;
        let rule = self.rules.iter_mut().find(|rule| {
            rule.times > 0
                && match &rule.when {
                    When::Nth(n) => *n == number,
                    When::Within(range) => range.start < wanted.end && wanted.start < range.end,
                }
        });
        if let Some(rule) = rule {
            rule.times -= 1;
            return Some(rule.fault.clone());
        }
        let drawn = self.drawn.as_ref()?;
        let hash = mix(drawn.seed ^ mix(number));
        let which = (hash >> 32) as usize % drawn.faults.len().max(1);
        match hash % drawn.one_in.max(1) {
            0 => drawn.faults.get(which).cloned(),
            _ => None,
        }
    }
}

impl<R: ReadAt> ReadAt for Faulty<R> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let wanted = offset..offset.saturating_add(buf.len() as u64);
        let fault = lock(&self.state).next_fault(&wanted);
        let mut most = usize::MAX;
        match &fault {
            Some(Fault::Error(kind)) => return Err((*kind).into()),
            Some(Fault::Short(bytes)) => most = *bytes,
            Some(Fault::Stall(gate)) => gate.pass(),
            Some(Fault::Corrupt) | None => {}
        }
        if let Some(end) = lock(&self.state).end {
            most = most.min(end.saturating_sub(offset) as usize);
        }
        // The file is asked for whole blocks, so what was not to come is taken back.
        let count = self.inner.read_at(offset, buf)?.min(most);
        let (came, rest) = buf.split_at_mut(count);
        rest.fill(0xEE);
        if matches!(fault, Some(Fault::Corrupt)) {
            came.iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(count)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn direct(&self) -> bool {
        self.inner.direct()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A file in memory that does not need alignment.
    struct Bytes(Vec<u8>, PathBuf);

    impl ReadAt for Bytes {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            let rest = self.0.get(offset as usize..).unwrap_or_default();
            let count = rest.len().min(buf.len());
            buf[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        }

        fn len(&self) -> u64 {
            self.0.len() as u64
        }

        fn direct(&self) -> bool {
            false
        }

        fn path(&self) -> &Path {
            &self.1
        }
    }

    fn faulty() -> Faulty<Bytes> {
        Faulty::new(Bytes((0..100).collect(), PathBuf::from("in memory")))
    }

    fn read(file: &Faulty<Bytes>, offset: u64, bytes: usize) -> Result<Vec<u8>, io::ErrorKind> {
        let mut buf = vec![0; bytes];
        let count = file.read_at(offset, &mut buf).map_err(|e| e.kind())?;
        buf.truncate(count);
        Ok(buf)
    }

    #[test]
    fn faults_meet_the_reads_they_are_for() {
        let file = faulty();
        file.fail(When::Nth(1), 1, Fault::Error(io::ErrorKind::Interrupted));
        file.fail(When::Within(50..60), 2, Fault::Short(3));
        file.fail(When::Within(50..51), 1, Fault::Corrupt);
        assert_eq!(read(&file, 0, 2), Ok(vec![0, 1]));
        assert_eq!(read(&file, 0, 2), Err(io::ErrorKind::Interrupted));
        assert_eq!(read(&file, 0, 2), Ok(vec![0, 1]));
        assert_eq!(read(&file, 40, 11), Ok(vec![40, 41, 42]));
        assert_eq!(read(&file, 59, 4), Ok(vec![59, 60, 61]));
        assert_eq!(read(&file, 51, 1), Ok(vec![51]));
        assert_eq!(read(&file, 50, 2), Ok(vec![!50, !51]));
        assert_eq!(read(&file, 40, 11).unwrap().len(), 11);
        assert_eq!(file.reads(), 8);
    }

    #[test]
    fn a_cut_file_keeps_the_length_it_was_opened_with() {
        let file = faulty();
        file.cut(10);
        assert_eq!(read(&file, 8, 5), Ok(vec![8, 9]));
        assert_eq!(read(&file, 10, 5), Ok(vec![]));
        assert_eq!(
            (file.len(), file.direct(), file.path()),
            (100, false, Path::new("in memory"))
        );
    }

    #[test]
    fn a_healed_file_reads_as_it_is() {
        let file = faulty();
        file.fail(When::Within(0..100), 9, Fault::Error(io::ErrorKind::Other));
        file.fail_by_seed(1, 1, vec![Fault::Corrupt]);
        file.cut(3);
        assert_eq!(read(&file, 2, 2), Err(io::ErrorKind::Other));
        file.heal();
        assert_eq!(read(&file, 2, 2), Ok(vec![2, 3]));
        assert_eq!(file.reads(), 2);
    }

    #[test]
    fn a_stalled_read_waits_for_its_gate() {
        let (file, gate) = (faulty(), Gate::new());
        file.fail(When::Within(7..8), 9, Fault::Stall(gate.clone()));
        let done = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let came = read(&file, 7, 1);
                    lock(&done).push(came);
                });
            }
            gate.wait_for(2);
            assert!(lock(&done).is_empty());
            gate.open();
        });
        assert_eq!(*lock(&done), [Ok(vec![7]), Ok(vec![7])]);
        assert_eq!(read(&file, 7, 1), Ok(vec![7]));
    }

    #[test]
    fn the_seed_alone_says_which_reads_fail() {
        let run = |seed| {
            let file = faulty();
            file.fail_by_seed(
                seed,
                4,
                vec![Fault::Error(io::ErrorKind::Other), Fault::Short(0)],
            );
            (0..400).map(|_| read(&file, 0, 1)).collect::<Vec<_>>()
        };
        let first = run(1);
        assert_eq!(first, run(1));
        assert_ne!(first, run(2));
        let errors = first.iter().filter(|read| read.is_err()).count();
        let short = first.iter().filter(|read| **read == Ok(vec![])).count();
        // Half of a quarter of 400 each, and chance.
        assert!(
            (25..=75).contains(&errors) && (25..=75).contains(&short),
            "{errors} {short}"
        );
    }
}
