//! Writing a pack. Until it is whole and was read back it has other names: `trunk.bin.partial`, and `trunk.bin.sums` with
//! the hash of every segment that was written. Going on after a kill or a power cut keeps the segments that still have
//! their hash, so nothing hangs on what the system had written when.

use std::fs::{self, File, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::check::{self, Checked, Reader};
use super::manifest::{self, Item, Manifest};
use super::segments::Segments;
use super::{BIN, Progress, c_engine, space};
use crate::checkpoint::atomic::{Access, replace, sweep, sync_folder};
use crate::checkpoint::{Checkpoint, hex};
use crate::stream::{Error, OpenFiles, Walk, open_shards};
use crate::system::LockFile;

const PARTIAL: &str = "trunk.bin.partial";
const SUMS: &str = "trunk.bin.sums";

/// How packing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// The pack is whole and was read back.
    Written {
        /// Bytes of `trunk.bin`.
        bytes: u64,
        /// Of them, those that an earlier run had written.
        kept: u64,
    },
    /// It was whole already, of so many bytes, and was read and found right.
    WasThere(u64),
    /// It was stopped; the next run goes on from there.
    Interrupted,
}

/// Packs the trunk of a checkpoint into the folder `out`, or goes on with it. `walk` is that of all layers. `progress` is
/// told of the bytes that are done and says whether to go on.
///
/// # Errors
/// [`Error::Pack`] when the folder holds something else, or the drive is too full; a read or a write that fails;
/// [`Error::Damaged`] when what was written is read back otherwise.
pub fn write(
    checkpoint: &Checkpoint,
    walk: &Walk,
    out: &Path,
    progress: &mut Progress<'_>,
) -> Result<Packed, Error> {
    fs::create_dir_all(out).map_err(|e| Error::write(out, "make the folder", e))?;
    if out.join(manifest::FILE).exists() {
        return was_there(checkpoint, out, progress);
    }
    let names = Names::new(out);
    names.refuse_foreign(out)?;
    let mut manifest = Manifest::new(checkpoint, walk)?;
    let segments = manifest.segments();
    let head = format!("{} {}", manifest.identity, manifest.segment_bytes);

    let mut partial = names.open_partial()?;
    let Some(kept) = kept(&names, &head, segments, progress)? else {
        return Ok(Packed::Interrupted);
    };
    let kept_bytes = kept.len() as u64 * manifest.segment_bytes;
    let kept_bytes = kept_bytes.min(segments.file_len());
    // What is not kept makes room again.
    partial
        .set_len(kept_bytes)
        .map_err(|e| Error::write(&names.partial, "cut to what is right", e))?;
    space::refuse_full(out, segments.file_len() - kept_bytes)?;

    let mut sums = names.begin_sums(&head, &kept)?;
    manifest.sha256 = kept;
    let files = open_shards(checkpoint)?;
    let mut source = Source::new(&manifest, checkpoint, &files)?;
    let failed = |e| Error::write(&names.partial, "write", e);
    partial.seek(SeekFrom::Start(kept_bytes)).map_err(failed)?;
    for i in manifest.sha256.len()..segments.count() {
        let range = segments.range(i);
        let done = range.end;
        let bytes = source.read(range)?;
        partial.write_all(bytes).map_err(failed)?;
        let hash = hex(&Sha256::digest(bytes));
        writeln!(sums, "{hash}").map_err(|e| Error::write(&names.sums, "write", e))?;
        manifest.sha256.push(hash);
        if !progress("packed", done, segments.file_len()) {
            return Ok(Packed::Interrupted);
        }
    }
    let sync = |e| Error::write(&names.partial, "bring to the drive", e);
    partial.sync_all().map_err(sync)?;
    let checked = check::hashes(&names.partial, segments, &manifest.sha256, progress)?;
    if checked == Checked::Interrupted {
        return Ok(Packed::Interrupted);
    }
    names.publish(out, &manifest)?;
    Ok(Packed::Written {
        bytes: segments.file_len(),
        kept: kept_bytes,
    })
}

/// A pack that is whole: of this checkpoint, or refused.
fn was_there(
    checkpoint: &Checkpoint,
    out: &Path,
    progress: &mut Progress<'_>,
) -> Result<Packed, Error> {
    // A kill may have come between the last two steps.
    let sums = out.join(SUMS);
    let checked = check::check(out, checkpoint, progress)?;
    if sums.exists() {
        fs::remove_file(&sums).map_err(|e| Error::write(&sums, "delete", e))?;
    }
    Ok(match checked {
        Checked::Right(bytes) => Packed::WasThere(bytes),
        Checked::Interrupted => Packed::Interrupted,
    })
}

/// The files of a pack that is being written.
struct Names {
    bin: PathBuf,
    partial: PathBuf,
    sums: PathBuf,
}

impl Names {
    fn new(out: &Path) -> Self {
        Self {
            bin: out.join(BIN),
            partial: out.join(PARTIAL),
            sums: out.join(SUMS),
        }
    }

    /// Nobody's 109 GB are overwritten.
    fn refuse_foreign(&self, out: &Path) -> Result<(), Error> {
        let other = out.join(c_engine::FILE);
        // A file of weights without manifest is ours if its hashes are beside it: then the kill came just before the end.
        let stray = self.bin.exists() && !self.sums.exists();
        let there = match (other.exists(), stray) {
            (true, _) => other,
            (false, true) => self.bin.clone(),
            (false, false) => return Ok(()),
        };
        let problem = "is there already and is not of k3 pack; name another folder";
        Err(Error::pack(&there, problem))
    }

    /// The file of weights under its temporary name, for this process alone.
    fn open_partial(&self) -> Result<LockFile, Error> {
        if self.bin.exists() && !self.partial.exists() {
            fs::rename(&self.bin, &self.partial)
                .map_err(|e| Error::write(&self.bin, "rename", e))?;
        }
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.partial)
            .map_err(|e| Error::write(&self.partial, "open for writing", e))?;
        let file = LockFile::from(file);
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let problem = "another k3 pack is writing it; wait for it or end it";
                Err(Error::pack(&self.partial, problem))
            }
            // Some network drives have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
        }
    }

    fn begin_sums(&self, head: &str, kept: &[String]) -> Result<File, Error> {
        let mut text = format!("{head}\n");
        for hash in kept {
            text.push_str(hash);
            text.push('\n');
        }
        let failed = |e| Error::write(&self.sums, "write", e);
        let mut file = File::create(&self.sums).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        Ok(file)
    }

    /// Gives the files their names, the manifest last: a folder with a manifest holds a whole pack.
    fn publish(&self, out: &Path, manifest: &Manifest) -> Result<(), Error> {
        fs::rename(&self.partial, &self.bin)
            .map_err(|e| Error::write(&self.partial, "rename", e))?;
        sync_folder(out).map_err(|e| Error::write(out, "bring to the drive", e))?;
        let path = out.join(manifest::FILE);
        // What a kill left of an earlier manifest; whoever holds the lock writes alone.
        sweep(&path);
        let failed = |e| Error::write(&path, "write", e);
        let text = serde_json::to_vec(manifest).map_err(|e| failed(e.into()))?;
        replace(&path, Access::Private, &text).map_err(failed)?;
        fs::remove_file(&self.sums).map_err(|e| Error::write(&self.sums, "delete", e))
    }
}

/// The hashes of the segments that an earlier run wrote and that are still right; none when it was stopped.
fn kept(
    names: &Names,
    head: &str,
    segments: Segments,
    progress: &mut Progress<'_>,
) -> Result<Option<Vec<String>>, Error> {
    // What cannot be read as a list of hashes lists none.
    let text = fs::read_to_string(&names.sums).unwrap_or_default();
    let mut lines = text.lines();
    let mut kept = Vec::new();
    if lines.next() != Some(head) {
        return Ok(Some(kept));
    }
    let file = crate::stream::files::open(&names.partial)?;
    let mut reader = Reader::new(segments.range(0).end)?;
    for (i, hash) in lines.take(segments.count()).enumerate() {
        let range = segments.range(i);
        // A segment that cannot be read or has another hash is written anew, and all after it.
        let read = reader.read(file.as_ref(), range.start, range.end - range.start);
        if !read.is_ok_and(|bytes| hex(&Sha256::digest(bytes)) == hash) {
            break;
        }
        kept.push(hash.to_owned());
        if !progress("kept", range.end, segments.file_len()) {
            return Ok(None);
        }
    }
    Ok(Some(kept))
}

/// The bytes of a pack, gathered from the shards.
struct Source<'s> {
    items: Vec<Item>,
    checkpoint: &'s Checkpoint,
    files: &'s OpenFiles,
    reader: Reader,
    segment: Vec<u8>,
}

impl<'s> Source<'s> {
    fn new(
        manifest: &Manifest,
        checkpoint: &'s Checkpoint,
        files: &'s OpenFiles,
    ) -> Result<Self, Error> {
        Ok(Self {
            items: manifest.tensors.clone(),
            checkpoint,
            files,
            reader: Reader::new(manifest.segment_bytes)?,
            segment: Vec::new(),
        })
    }

    /// The bytes `range` of the file; behind the last tensor they are zero.
    fn read(&mut self, range: Range<u64>) -> Result<&[u8], Error> {
        self.segment.clear();
        self.segment.resize((range.end - range.start) as usize, 0);
        let first = self
            .items
            .partition_point(|item| item.offset + item.bytes <= range.start);
        for item in &self.items[first..] {
            if item.offset >= range.end {
                break;
            }
            let start = range.start.max(item.offset);
            let len = range.end.min(item.offset + item.bytes) - start;
            let tensor = self.checkpoint.tensor(&item.name)?;
            let file = self.files[usize::from(tensor.shard)].as_ref();
            let offset = tensor.offset + (start - item.offset);
            let bytes = self.reader.read(file, offset, len)?;
            let at = (start - range.start) as usize;
            self.segment[at..at + bytes.len()].copy_from_slice(bytes);
        }
        Ok(&self.segment)
    }
}
