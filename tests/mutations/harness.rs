//! What every format goes through: good files that are taken, then seeded changes of them, each of which must end in an
//! answer, in memory that the size of the file bounds, and, if it is a refusal, in one line that names the file.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::allocations::peak;
use crate::mutate::Mutator;

/// Changed files of a format in every run; `K3_CAMPAIGN` names another number.
const FEW: u32 = 100;
/// The seed of every run; `K3_SEED` names another.
const SEED: u32 = 1;
/// A file that keeps the processor longer hangs, for a campaign's watchdog.
const HANGS: Duration = Duration::from_secs(2);
/// And so does one for which nothing is done for so long.
const STANDS: Duration = Duration::from_secs(60);

/// What is read, and how.
pub struct Format<'f> {
    pub name: &'static str,
    /// The file's name, which a refusal must say; none where what is read is no file.
    pub file: Option<String>,
    /// Files that are taken as they are.
    pub good: Vec<Vec<u8>>,
    /// Words that mean something in it.
    pub words: &'f [&'f str],
    /// Bytes of memory for each byte of the file, and those that any file may take.
    pub memory: (usize, usize),
    /// Reads a file, and checks what must hold if it is taken. `Err` is the refusal.
    #[allow(clippy::type_complexity)]
    pub read: Box<dyn FnMut(&[u8]) -> Result<(), String> + 'f>,
}

/// A number that the environment sets.
fn set(variable: &str) -> Option<u32> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Reads the good files and then changed ones.
pub fn campaign(mut format: Format<'_>) {
    for (at, good) in format.good.iter().enumerate() {
        let taken = (format.read)(good);
        assert_eq!(taken, Ok(()), "{}: good file {at} is refused", format.name);
    }
    let count = set("K3_CAMPAIGN");
    let watch = count.is_some().then(|| Watch::start(format.name));
    let count = count.unwrap_or(FEW);
    let seed = set("K3_SEED").unwrap_or(SEED);
    let (mut taken, mut refused, mut dearest) = (0, 0, 0.0_f64);
    let mut slowest = Duration::ZERO;
    for case in 0..count {
        let mut mutator = Mutator::new(seed.wrapping_add(case), format.words);
        let mut file = format.good[mutator.below(format.good.len())].clone();
        mutator.mutate(&mut file);
        let place = format!(
            "{}, K3_SEED={} case 0",
            format.name,
            seed.wrapping_add(case)
        );
        watch.as_ref().inspect(|watch| watch.begin(case));
        let began = Instant::now();
        let read = AssertUnwindSafe(|| (format.read)(&file));
        let (answer, memory) = peak(|| catch_unwind(read));
        slowest = slowest.max(began.elapsed());
        watch.as_ref().inspect(|watch| watch.end());
        let answer = answer.unwrap_or_else(|panic| {
            eprintln!("{place}: panicked on {} bytes", file.len());
            resume_unwind(panic)
        });
        let (factor, constant) = format.memory;
        let bound = factor * file.len() + constant;
        assert!(
            memory <= bound,
            "{place}: {memory} bytes for a file of {}",
            file.len()
        );
        dearest = dearest.max(memory as f64 / bound as f64);
        match answer {
            Ok(()) => taken += 1,
            Err(why) => {
                refused += 1;
                one_line(&why, &place);
                if let Some(name) = &format.file {
                    assert!(why.contains(name.as_str()), "{place}: which file? {why}");
                }
            }
        }
    }
    println!(
        "{}: {count} changed files, seed {seed}: {taken} taken, {refused} refused; slowest {:.0} ms; at most {:.0} % \
         of the memory allowed",
        format.name,
        slowest.as_secs_f64() * 1e3,
        dearest * 100.0
    );
}

/// What is said must be one line, for a person, and harmless to a terminal.
pub fn one_line(said: &str, place: &str) {
    assert!(!said.is_empty() && said.len() < 4000, "{place}: {said}");
    assert!(!said.contains('\n'), "{place}: more than a line: {said}");
}

/// Ends the process when one file takes too long. Only in campaigns: a busy machine may be slow at any moment.
struct Watch {
    running: &'static Mutex<Option<(u32, Instant, Duration)>>,
}

impl Watch {
    /// Watches the thread that starts it.
    fn start(name: &'static str) -> Self {
        let running: &'static Mutex<Option<(u32, Instant, Duration)>> = Box::leak(Box::default());
        let thread = thread();
        let stat = thread.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::park_timeout(HANGS / 8);
                if let Some((case, began, worked)) = *running.lock().unwrap() {
                    let works = self::worked(stat.as_deref()).saturating_sub(worked);
                    if works > HANGS || began.elapsed() > STANDS {
                        eprintln!("{name}: changed file {case} takes longer than {HANGS:?}");
                        std::process::abort();
                    }
                }
            }
        });
        Self { running }
    }

    fn begin(&self, case: u32) {
        let worked = worked(thread().as_deref());
        *self.running.lock().unwrap() = Some((case, Instant::now(), worked));
    }

    fn end(&self) {
        *self.running.lock().unwrap() = None;
    }
}

/// Where the system tells of this thread, if it does.
fn thread() -> Option<PathBuf> {
    let here = std::fs::read_link("/proc/thread-self").ok()?;
    Some(Path::new("/proc").join(here).join("stat"))
}

/// Time that the processor has worked for a thread: what a drive that is slow to flush takes is no fault of a file. Nothing where
/// it cannot be known.
fn worked(thread: Option<&Path>) -> Duration {
    let fields = || -> Option<u64> {
        let stat = std::fs::read_to_string(thread?).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        // User and system time are the 14th and 15th field of the line, in hundredths of a second.
        let times = rest.split_whitespace().skip(11).take(2);
        times.map(|field| field.parse::<u64>().ok()).sum()
    };
    Duration::from_millis(10 * fields().unwrap_or(0))
}
