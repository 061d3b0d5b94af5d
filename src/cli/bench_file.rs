//! The file that `k3 bench io` reads: the one that was given, the largest of a folder, or one made for the purpose.

use std::fs::{self, File, Metadata};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::exit::Exit;
use crate::stream::DirectFile;
use crate::system;

/// A smaller file is over before the drive is up to speed.
pub(super) const SMALLEST: u64 = 64 << 20;
/// What is made where a folder has no file to read.
const MADE: u64 = 1 << 30;

/// A file to measure with, and what to call it.
pub(super) struct BenchFile {
    pub(super) file: DirectFile,
    pub(super) name: String,
}

impl BenchFile {
    /// Opens `path`, or the largest file of the folder `path`, or a file made in it.
    ///
    /// # Errors
    /// [`Exit::Refused`] when there is no such file, it is too small or full of holes, or the folder has no room.
    pub(super) fn choose(path: &Path) -> anyhow::Result<Self> {
        let refused = |problem: String| Exit::Refused(format!("{}: {problem}", path.display()));
        let meta = fs::metadata(path).map_err(|e| refused(format!("cannot be read: {e}")))?;
        if meta.is_dir() {
            return match largest(path)? {
                Some(file) => Self::open(&file),
                None => Self::make(path, MADE),
            };
        }
        if !meta.is_file() {
            return Err(refused("is neither a file nor a folder".into()).into());
        }
        if meta.len() < SMALLEST {
            return Err(refused(format!(
                "holds {} bytes, too few to measure a drive with; give a file of {} MB or more, or a folder",
                meta.len(),
                SMALLEST.div_ceil(1_000_000)
            ))
            .into());
        }
        if is_mostly_holes(&meta) {
            return Err(refused(
                "is mostly holes, which are read without the drive; give a file that holds data, or a folder".into(),
            )
            .into());
        }
        Self::open(path)
    }

    fn open(path: &Path) -> anyhow::Result<Self> {
        let file = DirectFile::open(path)
            .map_err(|e| Exit::Refused(format!("{}: cannot be opened: {e}", path.display())))?;
        let name = path.display().to_string();
        Ok(Self { file, name })
    }

    /// Makes a file of `bytes` bytes. It loses its name at once, so that it is gone with this process however that
    /// ends. The bytes look random, so that no file system can pack them.
    fn make(folder: &Path, bytes: u64) -> anyhow::Result<Self> {
        if let Some(free) = system::free(folder).filter(|&free| free < bytes + bytes / 8) {
            return Err(Exit::Refused(format!(
                "{}: holds no file of {} MB or more to measure with, and with {:.2} GB free no room to make one of \
                 {:.2} GB; give a large file",
                folder.display(),
                SMALLEST.div_ceil(1_000_000),
                free as f64 / 1e9,
                bytes as f64 / 1e9
            ))
            .into());
        }
        let context = || format!("{}: cannot make a file to measure with", folder.display());
        let made = tempfile::Builder::new()
            .prefix(".k3-bench")
            .tempfile_in(folder)
            .map_err(|e| Exit::Refused(format!("{}: {e}", context())))?;
        made.as_file().set_len(bytes).with_context(context)?;
        let file = DirectFile::open(made.path()).with_context(context)?;
        let mut writer = made.into_file();
        fill(&mut writer, bytes).with_context(context)?;
        let name = format!("a temporary file in {}", folder.display());
        Ok(Self { file, name })
    }
}

/// Writes `bytes` bytes of noise, down to the drive.
fn fill(file: &mut File, bytes: u64) -> std::io::Result<()> {
    let mut chunk = vec![0; 1 << 20];
    let mut left = bytes;
    let mut counter = 0;
    while left > 0 {
        for word in chunk.chunks_exact_mut(8) {
            counter += 1;
            word.copy_from_slice(&crate::checkpoint::synth_values::mix(counter).to_le_bytes());
        }
        let count = left.min(chunk.len() as u64);
        file.write_all(&chunk[..count as usize])?;
        left -= count;
    }
    file.sync_all()
}

/// The largest file that stands directly in the folder, if it is large enough and holds data.
fn largest(folder: &Path) -> Result<Option<PathBuf>, Exit> {
    let list = |e| Exit::Refused(format!("{}: cannot be listed: {e}", folder.display()));
    let mut best: Option<(u64, PathBuf)> = None;
    for item in fs::read_dir(folder).map_err(list)? {
        let path = item.map_err(list)?.path();
        // Downloaded shards may be links; what a link points to counts. A file that is gone meanwhile does not.
        let Ok(meta) = fs::metadata(&path) else {
            continue;
        };
        let len = meta.len();
        if meta.is_file()
            && len >= SMALLEST
            && !is_mostly_holes(&meta)
            && best.as_ref().is_none_or(|(most, _)| len > *most)
        {
            best = Some((len, path));
        }
    }
    Ok(best.map(|(_, path)| path))
}

/// Whether less than half of the file stands on the drive.
fn is_mostly_holes(meta: &Metadata) -> bool {
    system::allocated(meta).is_some_and(|bytes| bytes.saturating_mul(2) < meta.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::ReadAt;

    fn refusal(path: &Path) -> String {
        let error = BenchFile::choose(path).err().unwrap();
        assert_eq!(Exit::code(&error), Exit::REFUSED, "{error}");
        error.to_string()
    }

    #[test]
    fn what_cannot_be_measured_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert!(refusal(&path).contains("file: cannot be read"));
        let file = File::create(&path).unwrap();
        file.set_len(SMALLEST - 1).unwrap();
        assert!(refusal(&path).contains("too few to measure"));
        #[cfg(unix)]
        {
            file.set_len(SMALLEST).unwrap();
            assert!(refusal(&path).contains("is mostly holes"));
        }
    }

    #[test]
    fn a_folder_gives_its_largest_file_with_data() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, holes, data| {
            let mut file = File::create(dir.path().join(name)).unwrap();
            fill(&mut file, data).unwrap();
            file.set_len(data + holes).unwrap();
        };
        fs::create_dir(dir.path().join("a folder")).unwrap();
        write("small", 0, 4096);
        assert_eq!(largest(dir.path()).unwrap(), None);
        write("b", 0, SMALLEST);
        write("c", 4096, SMALLEST);
        #[cfg(unix)]
        write("d", 10 * SMALLEST, 0);
        let chosen = BenchFile::choose(dir.path()).unwrap();
        assert!(chosen.name.ends_with("c"), "{}", chosen.name);
        assert_eq!(chosen.file.len(), SMALLEST + 4096);
    }

    #[test]
    fn a_made_file_holds_noise_and_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let made = BenchFile::make(dir.path(), 3 << 20).unwrap();
        assert!(made.name.starts_with("a temporary file in "));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(made.file.len(), 3 << 20);
        let mut buffer = crate::stream::Buffer::new(3 << 20).unwrap();
        let pad = crate::stream::read_span(&made.file, 0, 3 << 20, buffer.as_mut_slice()).unwrap();
        assert_eq!(pad, 0);
        let mut words: Vec<_> = buffer.as_slice()[..3 << 20].as_chunks::<8>().0.to_vec();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 3 << 17);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_without_room_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = BenchFile::make(dir.path(), 1 << 60).err().unwrap();
        assert!(error.to_string().contains("no room to make one"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
