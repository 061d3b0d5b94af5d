//! Memory that direct reads land in: aligned, on 2 MiB pages where the system grants them, freed on drop. It knows
//! nothing of files.

use std::ptr::NonNull;
use std::sync::Arc;

use super::Error;
use super::shape::together;

/// Alignment that direct reads ask of memory, offsets and lengths: the largest block size of common drives.
pub const BLOCK: usize = 4096;
/// A huge page on x86-64, and on aarch64 with 4 KiB pages. The system cuts a request into a limited number of
/// physically contiguous parts, so a read into 4 KiB pages becomes many small requests to the drive.
pub const HUGE_PAGE: usize = 2 << 20;

/// The size of the pages that a buffer asks the system for. It is advice: see [`Buffer::huge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// 2 MiB pages.
    Huge,
    /// The system's ordinary pages, for comparison.
    Ordinary,
}

/// A private run of bytes, zero until written. Only what was touched is resident.
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    /// Keeps the memory, which buffers of one arena share; it is given back with the last of them.
    _mapping: Arc<system::Mapping>,
}

// SAFETY: a mapping is two numbers until its last buffer is gone, and then whichever thread that was on gives it back.
#[allow(unsafe_code)]
unsafe impl Send for system::Mapping {}
// SAFETY: nothing can be done with a shared mapping.
#[allow(unsafe_code)]
unsafe impl Sync for system::Mapping {}
// SAFETY: the buffer owns its bytes alone, like a `Vec<u8>`, and what it shares with others of its arena is only what gives
// them back: it may move to another thread.
#[allow(unsafe_code)]
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer can only be read, since writing takes `&mut`.
#[allow(unsafe_code)]
unsafe impl Sync for Buffer {}

impl Buffer {
    /// At least `bytes` bytes, rounded up to a multiple of [`BLOCK`]. From 2 MiB on, it starts on a border of [`HUGE_PAGE`]
    /// and huge pages are asked for; what the last one would stick out stands on ordinary pages, so that no more is
    /// resident than there is.
    ///
    /// # Errors
    /// [`Error::Memory`] when the system has no room.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        Self::with_pages(bytes, Pages::Huge)
    }

    /// As [`Self::new`], with the choice of pages, which matters from 2 MiB on.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_pages(bytes: usize, pages: Pages) -> Result<Self, Error> {
        let len = bytes.max(1).checked_next_multiple_of(BLOCK);
        let (mapping, start) = map(len, bytes, pages)?;
        Ok(Self {
            start,
            len: len.unwrap_or(0),
            _mapping: mapping,
        })
    }

    /// So many buffers of at least `bytes` bytes each, one behind the other in one arena: they share its huge pages, so
    /// that none is wasted on their ends. Each is owned alone and starts on a border of [`BLOCK`]. The last has what the
    /// arena's last page has left.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn several(count: usize, bytes: usize) -> Result<Vec<Self>, Error> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let len = bytes.max(1).checked_next_multiple_of(BLOCK);
        let whole = len.and_then(|len| usize::try_from(together(count as u64, len as u64)).ok());
        let (mapping, start) = map(whole, bytes.saturating_mul(count), Pages::Huge)?;
        let mut rest = Self {
            start,
            len: whole.unwrap_or(0),
            _mapping: mapping,
        };
        let mut buffers = Vec::with_capacity(count);
        for _ in 1..count {
            let behind = rest.split_off(bytes).ok_or_else(|| out_of(bytes))?;
            buffers.push(std::mem::replace(&mut rest, behind));
        }
        buffers.push(rest);
        Ok(buffers)
    }

    /// All bytes; as many as asked for, rounded up as [`Self::new`] says.
    #[allow(unsafe_code)]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` is followed by `len` readable bytes, zeroed by the system, which live as long as `self` and
        // are written through `&mut self` only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// All bytes, to be written.
    #[allow(unsafe_code)]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and `&mut self` says that nobody else looks.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// All bytes as numbers.
    #[allow(unsafe_code)]
    pub(super) fn as_floats(&self) -> &[f32] {
        // SAFETY: as in `as_slice`; a block's border is one of numbers, a block has a whole number of them, and any four bytes
        // are one.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / 4) }
    }

    /// All bytes as numbers, to be written.
    #[allow(unsafe_code)]
    pub(super) fn as_mut_floats(&mut self) -> &mut [f32] {
        // SAFETY: as in `as_floats`, and `&mut self` says that nobody else looks.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len / 4) }
    }

    /// Keeps the first `bytes`, rounded up to a multiple of [`BLOCK`], and gives what is behind them, if there is anything.
    #[allow(unsafe_code)]
    pub(super) fn split_off(&mut self, bytes: usize) -> Option<Self> {
        let kept = bytes.max(1).checked_next_multiple_of(BLOCK)?;
        let behind = self.len.checked_sub(kept).filter(|rest| *rest > 0)?;
        self.len = kept;
        Some(Self {
            // SAFETY: the buffer had more bytes than are kept; those behind them are nobody's now.
            start: unsafe { self.start.add(kept) },
            len: behind,
            _mapping: Arc::clone(&self._mapping),
        })
    }

    /// Takes `behind` in, if it follows in the same mapping.
    ///
    /// # Errors
    /// It does not, and is given back.
    pub(super) fn join(&mut self, behind: Self) -> Result<(), Self> {
        let end = self.start.addr().get() + self.len;
        if end != behind.start.addr().get() || !Arc::ptr_eq(&self._mapping, &behind._mapping) {
            return Err(behind);
        }
        self.len += behind.len;
        Ok(())
    }

    /// Writes into every page, so that the whole buffer is resident before time matters.
    pub fn touch(&mut self) {
        for byte in self.as_mut_slice().iter_mut().step_by(BLOCK) {
            *byte = 1;
        }
    }

    /// Whether the system put most of what is resident of this buffer on huge pages. `None` where it does not say, or
    /// nothing was touched yet. It reads the list of all mappings of the process, so it is for reports only.
    pub fn huge(&self) -> Option<bool> {
        huge_pages::granted(self.start.as_ptr().addr(), self.len)
    }
}

/// There are not so many bytes.
fn out_of(bytes: usize) -> Error {
    Error::Memory {
        bytes,
        source: std::io::ErrorKind::OutOfMemory.into(),
    }
}

/// Maps `len` bytes, none where that is beyond all numbers; `asked` is for the message.
fn map(
    len: Option<usize>,
    asked: usize,
    pages: Pages,
) -> Result<(Arc<system::Mapping>, NonNull<u8>), Error> {
    let failed = |source| Error::Memory {
        bytes: asked,
        source,
    };
    let len = len.ok_or_else(|| out_of(asked))?;
    let align = if len < HUGE_PAGE { BLOCK } else { HUGE_PAGE };
    let (mapping, start) = system::Mapping::new(len, align).map_err(failed)?;
    if align == HUGE_PAGE {
        mapping.advise(start, len, pages);
    }
    Ok((Arc::new(mapping), start))
}

/// Memory straight from the system's mappings: it is zero without being written, and given back at once.
#[cfg(unix)]
#[allow(unsafe_code)]
mod system {
    use std::ffi::c_void;
    use std::io;
    use std::ptr::NonNull;

    use rustix::mm::{self, MapFlags, ProtFlags};

    use super::{BLOCK, Pages};

    /// What was mapped: the buffer, and the room that was needed to align it, which is never touched.
    pub(super) struct Mapping {
        base: NonNull<u8>,
        len: usize,
    }

    impl Mapping {
        /// Maps `len` bytes on an `align` border (a power of two), and gives where they start.
        pub(super) fn new(len: usize, align: usize) -> io::Result<(Self, NonNull<u8>)> {
            // Mappings start on a page, and no page is smaller than a block.
            let room = if align > BLOCK { align } else { 0 };
            let whole = len.checked_add(room).ok_or(io::ErrorKind::OutOfMemory)?;
            // SAFETY: a new private mapping, at an address that the system chooses, touches no memory in use.
            let base = unsafe {
                mm::mmap_anonymous(
                    std::ptr::null_mut(),
                    whole,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::PRIVATE,
                )
            }?;
            let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
            let skip = base.addr().get().wrapping_neg() % align;
            // SAFETY: `skip` is less than `align`, which is the room mapped beyond `len` (or 0 without room).
            let start = unsafe { base.add(skip) };
            Ok((Self { base, len: whole }, start))
        }

        /// Asks for pages. A system without huge pages refuses, and then the buffer works as it is.
        pub(super) fn advise(&self, start: NonNull<u8>, len: usize, pages: Pages) {
            #[cfg(target_os = "linux")]
            {
                let advice = match pages {
                    Pages::Huge => mm::Advice::LinuxHugepage,
                    Pages::Ordinary => mm::Advice::LinuxNoHugepage,
                };
                // SAFETY: both advices keep the content, and the range lies inside this mapping.
                let _ = unsafe { mm::madvise(start.as_ptr().cast::<c_void>(), len, advice) };
            }
            #[cfg(not(target_os = "linux"))]
            let _ = (start, len, pages);
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: the mapping is ours, and the last buffer in it is gone, so no slice of it is left.
            let freed = unsafe { mm::munmap(self.base.as_ptr().cast::<c_void>(), self.len) };
            debug_assert!(freed.is_ok(), "a mapping of ours could not be given back");
        }
    }
}

/// Memory from the allocator, which takes runs of this size from the system, zero without being written.
#[cfg(not(unix))]
#[allow(unsafe_code)]
mod system {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;
    use std::ptr::NonNull;

    use super::Pages;

    /// What was allocated, with the layout that freeing it must name.
    pub(super) struct Mapping {
        base: NonNull<u8>,
        layout: Layout,
    }

    impl Mapping {
        /// Allocates `len` bytes (not 0) on an `align` border (a power of two), and gives where they start.
        pub(super) fn new(len: usize, align: usize) -> io::Result<(Self, NonNull<u8>)> {
            let layout =
                Layout::from_size_align(len, align).map_err(|_| io::ErrorKind::OutOfMemory)?;
            // SAFETY: the layout's size is not 0.
            let base =
                NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok((Self { base, layout }, base))
        }

        /// There is no such advice here.
        pub(super) fn advise(&self, _: NonNull<u8>, _: usize, _: Pages) {}
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: with the layout of the allocation; the last buffer in it is gone.
            unsafe { dealloc(self.base.as_ptr(), self.layout) }
        }
    }
}

/// What Linux says of the pages behind a mapping.
mod huge_pages {
    /// Whether more than half of what is resident in `start..start + len` stands on huge pages.
    #[cfg(target_os = "linux")]
    pub(super) fn granted(start: usize, len: usize) -> Option<bool> {
        let (resident, huge) = count(
            &std::fs::read_to_string("/proc/self/smaps").ok()?,
            start,
            len,
        );
        (resident > 0).then_some(2 * huge > resident)
    }

    /// Other systems do not tell.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn granted(_: usize, _: usize) -> Option<bool> {
        None
    }

    /// Resident KiB, and those on huge pages, of the mappings that lie in `start..start + len`, in the text of `smaps`
    /// (proc(5): a line `from-to rights …` a mapping, then lines `Name: N kB`). Advice sets a buffer apart from its
    /// neighbours, so it is a mapping of its own.
    #[cfg(any(target_os = "linux", test))]
    pub(super) fn count(smaps: &str, start: usize, len: usize) -> (u64, u64) {
        let mut inside = false;
        let (mut resident, mut huge) = (0, 0);
        for line in smaps.lines() {
            let mut words = line.split_ascii_whitespace();
            let first = words.next().unwrap_or_default();
            if let Some(name) = first.strip_suffix(':') {
                let mut kib = || {
                    words
                        .next()
                        .and_then(|n| n.parse::<u64>().ok())
                        .unwrap_or(0)
                };
                match name {
                    "Rss" if inside => resident += kib(),
                    "AnonHugePages" if inside => huge += kib(),
                    _ => {}
                }
            } else if let Some((from, to)) = first.split_once('-') {
                let address = |text| usize::from_str_radix(text, 16).ok();
                inside = matches!((address(from), address(to)), (Some(from), Some(to))
                    if from >= start && to <= start + len);
            }
        }
        (resident, huge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(buffer: &Buffer, to: usize) -> bool {
        buffer.as_slice().as_ptr().addr().is_multiple_of(to)
    }

    #[test]
    fn buffers_are_aligned_zero_and_not_longer_than_needed() {
        for (bytes, len, to) in [
            (0, BLOCK, BLOCK),
            (1, BLOCK, BLOCK),
            (BLOCK + 1, 2 * BLOCK, BLOCK),
            (HUGE_PAGE - BLOCK, HUGE_PAGE - BLOCK, BLOCK),
            (HUGE_PAGE, HUGE_PAGE, HUGE_PAGE),
            (HUGE_PAGE + 1, HUGE_PAGE + BLOCK, HUGE_PAGE),
        ] {
            for pages in [Pages::Huge, Pages::Ordinary] {
                let mut buffer = Buffer::with_pages(bytes, pages).unwrap();
                assert_eq!(buffer.as_slice().len(), len, "{bytes}");
                assert!(aligned(&buffer, to), "{bytes}");
                assert!(buffer.as_slice().iter().all(|&byte| byte == 0));
                // The last byte can be written too.
                buffer.as_mut_slice().fill(7);
                assert!(buffer.as_slice().iter().all(|&byte| byte == 7));
            }
        }
    }

    #[test]
    fn buffers_of_one_arena_do_not_touch_and_outlive_each_other() {
        assert!(Buffer::several(0, 5).unwrap().is_empty());
        for bytes in [1, BLOCK, 10 * BLOCK + 1, HUGE_PAGE / 2 + 1, HUGE_PAGE + 1] {
            let mut buffers = Buffer::several(5, bytes).unwrap();
            let len = bytes.next_multiple_of(BLOCK);
            // Where there are huge pages, the last buffer has the rest of the last one, so that all of it is read into fast.
            let all = match 5 * len {
                all if all < HUGE_PAGE => all,
                all => all.next_multiple_of(HUGE_PAGE),
            };
            assert_eq!(buffers.len(), 5);
            for (i, buffer) in (1..).zip(&mut buffers) {
                assert!(aligned(buffer, BLOCK));
                let len = if i == 5 { all - 4 * len } else { len };
                assert_eq!(buffer.as_slice().len(), len);
                assert!(buffer.as_slice().iter().all(|&byte| byte == 0));
                buffer.as_mut_slice().fill(i);
            }
            // The others stay when some are gone.
            for (i, buffer) in (1..).zip(buffers).skip(2) {
                assert!(buffer.as_slice().iter().all(|&byte| byte == i));
            }
        }
    }

    #[test]
    fn what_cannot_be_mapped_is_an_error_that_names_the_bytes() {
        for bytes in [usize::MAX, isize::MAX as usize, 1 << 60] {
            let message = Buffer::new(bytes).err().unwrap().to_string();
            assert!(message.contains(&bytes.to_string()), "{message}");
            let message = Buffer::several(3, bytes).err().unwrap().to_string();
            let all = bytes.saturating_mul(3);
            assert!(message.contains(&all.to_string()), "{message}");
        }
    }

    #[test]
    fn buffers_move_between_threads() {
        let mut buffer = Buffer::new(HUGE_PAGE).unwrap();
        let buffer = std::thread::spawn(move || {
            buffer.as_mut_slice()[HUGE_PAGE - 1] = 9;
            buffer
        })
        .join()
        .unwrap();
        assert_eq!(buffer.as_slice()[HUGE_PAGE - 1], 9);
    }

    #[test]
    fn the_list_of_mappings_is_counted_inside_the_range_only() {
        let smaps = "1000-2000 rw-p 00000000 00:00 0\nRss: 4 kB\nAnonHugePages: 4 kB\n\
                     200000-600000 rw-p 00000000 00:00 0\nRss:    4096 kB\nAnonHugePages:   2048 kB\nVmFlags: rd wr\n\
                     600000-700000 r--p 0 00:00 0 /a-b: c\nRss: 8 kB\nAnonHugePages: 8 kB\n";
        assert_eq!(huge_pages::count(smaps, 0x200000, 0x400000), (4096, 2048));
        assert_eq!(huge_pages::count(smaps, 0x200000, 0x3ff000), (0, 0));
        assert_eq!(huge_pages::count("", 0, 1), (0, 0));
    }

    #[cfg(target_os = "linux")]
    mod linux {
        use super::*;

        /// Pages of this process that are resident in anonymous memory around `buffer`: those of its own mapping.
        fn resident_kib(buffer: &Buffer) -> u64 {
            let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let start = buffer.as_slice().as_ptr().addr();
            huge_pages::count(&smaps, start, buffer.as_slice().len()).0
        }

        /// Whether the kernel takes advice about huge pages; without it, mappings side by side are listed as one.
        fn has_huge_pages() -> bool {
            let has = std::fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap_or(false);
            if !has {
                println!("NOT RUN: this kernel has no transparent huge pages");
            }
            has
        }

        #[test]
        fn only_what_is_touched_is_resident() {
            if !has_huge_pages() {
                return;
            }
            // Far more than the test touches.
            let Ok(mut buffer) = Buffer::with_pages(4 << 30, Pages::Ordinary) else {
                println!("NOT RUN: the system grants no more address space than it has memory");
                return;
            };
            assert_eq!((resident_kib(&buffer), buffer.huge()), (0, None));
            buffer.as_mut_slice()[1 << 30..(1 << 30) + (1 << 20)].fill(1);
            assert_eq!(resident_kib(&buffer), 1024);
            assert_eq!(buffer.huge(), Some(false));
        }

        /// 64 GiB mapped and given back piece by piece.
        #[test]
        fn dropping_gives_the_memory_back() {
            let addresses = || {
                let status = std::fs::read_to_string("/proc/self/statm").unwrap();
                let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
                pages * 4096
            };
            let before = addresses();
            for _ in 0..1024 {
                let mut buffer = Buffer::new(64 << 20).unwrap();
                buffer.as_mut_slice()[0] = 1;
                let small = Buffer::new(BLOCK).unwrap();
                drop((small, buffer));
            }
            // Other tests of this process map memory as well, but not 32 GiB of it.
            let after = addresses();
            assert!(after < before + (32 << 30), "{before} -> {after}");
        }

        #[test]
        fn huge_pages_are_granted_where_the_system_has_them() {
            if !has_huge_pages() {
                return;
            }
            let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
                .unwrap_or_default();
            let mut buffer = Buffer::new(4 * HUGE_PAGE).unwrap();
            buffer.touch();
            let huge = buffer.huge();
            println!("transparent huge pages {}: {huge:?}", setting.trim());
            assert!(huge.is_some(), "the mapping was not found");
            if setting.contains("[never]") {
                assert_eq!(huge, Some(false));
            }
            // Whether they are granted hangs on free memory as well; that ordinary ones are not huge does not.
            let mut buffer = Buffer::with_pages(4 * HUGE_PAGE, Pages::Ordinary).unwrap();
            buffer.touch();
            assert_eq!(buffer.huge(), Some(false));
        }
    }
}
