//! libpmix, opened at run time: a program needs it only where a launcher has brought it along.
//!
//! The layouts are those of `pmix_common.h`, the same from version 2 to 5 of the library.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

const NSPACE_BYTES: usize = 256;
const KEY_BYTES: usize = 512;
const SUCCESS: c_int = 0;
const GLOBAL: u8 = 3;
const COLLECT: &[u8] = b"pmix.collect";

const BOOL: u16 = 1;
const STRING: u16 = 3;
const UINT16: u16 = 13;
const UINT32: u16 = 14;
const PROC_RANK: u16 = 40;

/// The rank that stands for the whole job.
pub const WHOLE_JOB: u32 = u32::MAX - 1;

#[repr(C)]
#[derive(Clone, Copy)]
struct Proc {
    nspace: [c_char; NSPACE_BYTES],
    rank: u32,
}

/// `pmix_value_t`: a type, and a union whose longest member has three words.
#[repr(C)]
struct RawValue {
    kind: u16,
    data: [u64; 3],
}

#[repr(C)]
struct Info {
    key: [c_char; KEY_BYTES],
    flags: u32,
    value: RawValue,
}

type Init = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *mut Proc, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut RawValue) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int;
type Get = unsafe extern "C" fn(
    *const Proc,
    *const c_char,
    *const Info,
    usize,
    *mut *mut RawValue,
) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// The functions that are used here.
struct Functions {
    init: Init,
    finalize: Finalize,
    abort: Abort,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    error_string: ErrorString,
}

/// What a key holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Value {
    /// Any of the unsigned types.
    Number(u32),
    /// A text.
    Text(String),
}

/// A process's use of libpmix, from `PMIx_Init` to `PMIx_Finalize`.
pub struct Pmix {
    functions: Functions,
    own: Proc,
}

// SAFETY: libpmix hands every call over to a thread of its own and may be called from any; what is
// kept here are addresses of its functions, and a name.
unsafe impl Send for Pmix {}

impl Pmix {
    /// Opens the library and connects to the launcher.
    ///
    /// # Errors
    /// What the system's linker or the library says.
    pub fn open(library: &Path) -> Result<Self, String> {
        let functions = Functions::load(library)?;
        let mut own = Proc {
            nspace: [0; NSPACE_BYTES],
            rank: 0,
        };
        // SAFETY: `own` has the layout that the function fills, and no infos are passed.
        let status = unsafe { (functions.init)(&raw mut own, ptr::null_mut(), 0) };
        functions.check(status)?;
        Ok(Self { functions, own })
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.own.rank
    }

    /// Says a text under a key, for all ranks.
    ///
    /// # Errors
    /// What the library says.
    pub fn put(&self, key: &str, text: &str) -> Result<(), String> {
        let (key, text) = (c_string(key)?, c_string(text)?);
        let mut value = RawValue {
            kind: STRING,
            data: [text.as_ptr() as u64, 0, 0],
        };
        // SAFETY: both strings end with a zero and live until after the call, which copies them.
        let status = unsafe { (self.functions.put)(GLOBAL, key.as_ptr(), &raw mut value) };
        self.functions.check(status)
    }

    /// Waits for all ranks of the job; what they put before is known here afterwards.
    ///
    /// # Errors
    /// What the library says.
    pub fn fence(&self) -> Result<(), String> {
        // SAFETY: the function takes nothing.
        let status = unsafe { (self.functions.commit)() };
        self.functions.check(status)?;
        let mut collect = Info {
            key: [0; KEY_BYTES],
            flags: 0,
            value: RawValue {
                kind: BOOL,
                data: [u64::from_ne_bytes([1, 0, 0, 0, 0, 0, 0, 0]), 0, 0],
            },
        };
        for (to, &from) in collect.key.iter_mut().zip(COLLECT) {
            *to = from as c_char;
        }
        let job = self.place(WHOLE_JOB);
        // SAFETY: one process and one info, of the library's layout, live until after the call.
        let status = unsafe { (self.functions.fence)(&raw const job, 1, &raw const collect, 1) };
        self.functions.check(status)
    }

    /// What a rank, or the launcher about it, has said under a key.
    ///
    /// # Errors
    /// What the library says, and if the value is of another type.
    pub fn get(&self, rank: u32, key: &str) -> Result<Value, String> {
        let place = self.place(rank);
        let key = c_string(key)?;
        let mut found: *mut RawValue = ptr::null_mut();
        // SAFETY: the process and the key live until after the call, which writes an address.
        let status = unsafe {
            (self.functions.get)(
                &raw const place,
                key.as_ptr(),
                ptr::null(),
                0,
                &raw mut found,
            )
        };
        self.functions.check(status)?;
        if found.is_null() {
            return Err("it has no value".into());
        }
        // SAFETY: on success the library hands over one value of its layout, allocated with malloc.
        unsafe { take_value(found) }
    }

    /// Asks the launcher to end the whole job.
    pub fn abort(&self, status: c_int, why: &str) {
        let Ok(why) = c_string(why) else { return };
        // SAFETY: the text ends with a zero and lives until after the call; no processes means all.
        unsafe { (self.functions.abort)(status, why.as_ptr(), ptr::null_mut(), 0) };
    }

    fn place(&self, rank: u32) -> Proc {
        Proc { rank, ..self.own }
    }
}

impl Drop for Pmix {
    fn drop(&mut self) {
        // SAFETY: no infos are passed. The library stays open: its thread may still run.
        unsafe { (self.functions.finalize)(ptr::null(), 0) };
    }
}

impl Functions {
    fn load(library: &Path) -> Result<Self, String> {
        let name = CString::new(library.as_os_str().as_bytes())
            .map_err(|_| format!("`{}` has a zero byte", library.display()))?;
        // Its own plug-ins look for its symbols among the global ones.
        // SAFETY: the name ends with a zero. What the library does when it is loaded is trusted: it
        // is the one that the system, or this program's user, has named.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            return Err(linker_error());
        }
        // SAFETY: each symbol has the type that the library's header declares for it.
        unsafe {
            Ok(Self {
                init: mem::transmute::<*mut c_void, Init>(symbol(handle, c"PMIx_Init")?),
                finalize: mem::transmute::<*mut c_void, Finalize>(symbol(
                    handle,
                    c"PMIx_Finalize",
                )?),
                abort: mem::transmute::<*mut c_void, Abort>(symbol(handle, c"PMIx_Abort")?),
                put: mem::transmute::<*mut c_void, Put>(symbol(handle, c"PMIx_Put")?),
                commit: mem::transmute::<*mut c_void, Commit>(symbol(handle, c"PMIx_Commit")?),
                fence: mem::transmute::<*mut c_void, Fence>(symbol(handle, c"PMIx_Fence")?),
                get: mem::transmute::<*mut c_void, Get>(symbol(handle, c"PMIx_Get")?),
                error_string: mem::transmute::<*mut c_void, ErrorString>(symbol(
                    handle,
                    c"PMIx_Error_string",
                )?),
            })
        }
    }

    fn check(&self, status: c_int) -> Result<(), String> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: the function returns a constant text for every number.
        let text = unsafe { CStr::from_ptr((self.error_string)(status)) };
        Err(format!("{} ({status})", text.to_string_lossy()))
    }
}

/// Copies a value and frees it.
///
/// # Safety
/// `found` is a value that the library has handed over.
unsafe fn take_value(found: *mut RawValue) -> Result<Value, String> {
    // SAFETY: as the caller says; the union's member is the one that the type names, and texts end
    // with a zero and were allocated with malloc, as the value was.
    unsafe {
        let RawValue { kind, data } = found.read();
        libc::free(found.cast());
        let low = data[0].to_ne_bytes();
        match kind {
            STRING => {
                let text = data[0] as *mut c_char;
                if text.is_null() {
                    return Err("it has no text".into());
                }
                let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
                libc::free(text.cast());
                Ok(Value::Text(copy))
            }
            UINT16 => Ok(Value::Number(u16::from_ne_bytes([low[0], low[1]]).into())),
            UINT32 | PROC_RANK => Ok(Value::Number(u32::from_ne_bytes([
                low[0], low[1], low[2], low[3],
            ]))),
            other => Err(format!(
                "it has a value of type {other}, not a number or a text"
            )),
        }
    }
}

/// Finds a function.
///
/// # Safety
/// `handle` is of an open library.
unsafe fn symbol(handle: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: as the caller says, and the name ends with a zero.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if found.is_null() {
        return Err(linker_error());
    }
    Ok(found)
}

fn linker_error() -> String {
    // SAFETY: after a failure the linker returns a text that stays until its next call, which only
    // this thread's next one here would be.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return "the linker does not say why".into();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("`{text}` has a zero byte"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_library() {
        assert_eq!(mem::size_of::<Proc>(), 260);
        assert_eq!(mem::size_of::<RawValue>(), 32);
        assert_eq!(mem::size_of::<Info>(), 552);
        assert_eq!(mem::offset_of!(Info, value), 520);
    }

    #[test]
    fn a_missing_library_is_said() {
        let error = Pmix::open("libsabani-no-such.so".as_ref()).err().unwrap();
        assert!(error.contains("libsabani-no-such.so"), "{error}");
    }
}
