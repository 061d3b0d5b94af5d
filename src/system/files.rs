//! Files: who may read them, where they lie, and how they are read past the system's cache.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// A file that is made is its owner's only, and one that is there is not opened through a link. On Windows it has the rights of its
/// folder, which in a person's own folders are the same, and links need rights that few have.
pub fn owner_only(options: &mut OpenOptions) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    #[cfg(not(unix))]
    let _ = options;
}

/// Whether others than its owner may do anything with a file, as far as the system says.
pub fn others_may_read(meta: &Metadata) -> bool {
    #[cfg(unix)]
    return std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o077 != 0;
    #[cfg(not(unix))]
    {
        let _ = meta;
        false
    }
}

/// A folder that is made is its owner's only; on Windows as [`owner_only`].
pub fn owner_only_folder(builder: &mut DirBuilder) {
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(builder, 0o700);
    #[cfg(not(unix))]
    let _ = builder;
}

/// A temporary file that is made may be read by whoever may read any new file.
pub fn readable_by_all(builder: &mut tempfile::Builder) {
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    #[cfg(not(unix))]
    let _ = builder;
}

/// Brings what happened to the names in a folder to the drive. Where a folder cannot be opened as a file, the system does that
/// itself.
///
/// # Errors
/// The drive fails, or the file system cannot flush folders.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => File::open(folder)?.sync_all(),
        false => Ok(()),
    }
}

/// One positioned read, of as much as the system gives. No cursor is used.
///
/// # Errors
/// What the system says.
#[cfg(unix)]
pub fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buf, offset)
}

/// One positioned read, of as much as the system gives. No cursor is used, though one is moved.
///
/// # Errors
/// What the system says.
#[cfg(windows)]
pub fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    match std::os::windows::fs::FileExt::seek_read(file, buf, offset) {
        // Behind the end of the file, which elsewhere is a read of nothing.
        Err(error) if error.raw_os_error() == Some(END_OF_FILE) => Ok(0),
        read => read,
    }
}

/// `ERROR_HANDLE_EOF`.
#[cfg(windows)]
const END_OF_FILE: i32 = 38;

/// Bytes that this user may still write in a folder; none where the system does not say.
pub fn free(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let stat = rustix::fs::statvfs(folder).ok()?;
        stat.f_bavail.checked_mul(stat.f_frsize)
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

/// The number of the drive that a path is on; none where the system does not say.
pub fn device(path: &Path) -> Option<u64> {
    #[cfg(unix)]
    return std::fs::metadata(path)
        .ok()
        .map(|meta| std::os::unix::fs::MetadataExt::dev(&meta));
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// Whether a file can be run.
pub fn is_program(path: &Path) -> bool {
    #[cfg(unix)]
    let may =
        |meta: &Metadata| std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may = |_: &Metadata| true;
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && may(&meta))
}

/// Bytes that a file takes on its drive, which is less than its length where it has holes; none where the system does not say.
pub fn allocated(meta: &Metadata) -> Option<u64> {
    /// The unit in which systems count a file's blocks.
    #[cfg(unix)]
    const UNIT: u64 = 512;
    #[cfg(unix)]
    return Some(std::os::unix::fs::MetadataExt::blocks(meta).saturating_mul(UNIT));
    #[cfg(not(unix))]
    {
        let _ = meta;
        None
    }
}

/// Whether a file lives in the page cache and nowhere else. Newer kernels of Linux accept direct reads of such files and then copy
/// from memory all the same; other systems refuse by themselves, where they do.
pub fn in_memory(file: &File) -> bool {
    /// `TMPFS_MAGIC` and `RAMFS_MAGIC` of linux/magic.h.
    #[cfg(target_os = "linux")]
    const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
    #[cfg(target_os = "linux")]
    return rustix::fs::fstatfs(file).is_ok_and(|stat| MEMORY.contains(&(stat.f_type as u64)));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        false
    }
}

/// Opens a file for reads past the page cache: by a flag at opening.
///
/// # Errors
/// What the system says, also where the file system has no direct reads.
#[cfg(all(unix, not(target_vendor = "apple")))]
pub fn open_direct(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32)
        .open(path)
}

/// Opens a file for reads past the cache, which is switched off on the open file.
///
/// # Errors
/// What the system says.
#[cfg(target_vendor = "apple")]
pub fn open_direct(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).open(path)?;
    rustix::fs::fcntl_nocache(&file, true)?;
    Ok(file)
}

/// Opens a file for reads past the cache, by an unbuffered handle.
///
/// # Errors
/// What the system says.
#[cfg(windows)]
pub fn open_direct(path: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;
    /// `FILE_FLAG_NO_BUFFERING` of `CreateFile`.
    const NO_BUFFERING: u32 = 0x2000_0000;
    OpenOptions::new()
        .read(true)
        .custom_flags(NO_BUFFERING)
        .open(path)
}
