//! The functions of libvirt that crate `virt` has no safe form for. The only place with `unsafe`: every block says
//! why it is sound.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use corral::backend::libvirt::wire::{Happened, Job, Listed};
use serde_json::Value;
use virt::connect::Connect;
use virt::domain::Domain;
use virt::error::Error;
use virt::sys;

type Result<T> = std::result::Result<T, Error>;

/// Registers libvirt's own event loop; before the first connection.
pub fn register_loop() {
    // SAFETY: no arguments, called once, before any connection is open.
    unsafe { sys::virEventRegisterDefaultImpl() };
}

/// One turn of the event loop.
pub fn turn_loop() -> bool {
    // SAFETY: the loop was registered by `register_loop`.
    unsafe { sys::virEventRunDefaultImpl() == 0 }
}

/// A C text, owned by libvirt.
///
/// # Safety
/// `text` is null or ends with a NUL and lives during the call.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as promised by the caller.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// A typed parameter as JSON; one of an unknown type is null.
///
/// # Safety
/// `param` is one that libvirt has filled in.
unsafe fn parameter(param: &sys::virTypedParameter) -> (String, Value) {
    // SAFETY: `field` ends with a NUL, and `type_` says which member of the union is there.
    unsafe {
        let name = text(param.field.as_ptr());
        let value = match param.type_ as u32 {
            sys::VIR_TYPED_PARAM_INT => param.value.i.into(),
            sys::VIR_TYPED_PARAM_UINT => param.value.ui.into(),
            sys::VIR_TYPED_PARAM_LLONG => param.value.l.into(),
            sys::VIR_TYPED_PARAM_ULLONG => param.value.ul.into(),
            sys::VIR_TYPED_PARAM_DOUBLE => param.value.d.into(),
            sys::VIR_TYPED_PARAM_BOOLEAN => (param.value.b != 0).into(),
            sys::VIR_TYPED_PARAM_STRING => text(param.value.s).into(),
            _ => Value::Null,
        };
        (name, value)
    }
}

/// Who a domain is.
///
/// # Safety
/// `domain` is a domain that lives during the call.
unsafe fn who(domain: sys::virDomainPtr) -> (String, String, Option<u32>) {
    let mut uuid = [0 as c_char; sys::VIR_UUID_STRING_BUFLEN as usize];
    // SAFETY: the buffer has the length that libvirt asks for; the name belongs to the domain.
    unsafe {
        sys::virDomainGetUUIDString(domain, uuid.as_mut_ptr());
        let id = sys::virDomainGetID(domain);
        let name = text(sys::virDomainGetName(domain));
        let number = (id != u32::MAX).then_some(id);
        (text(uuid.as_ptr()), name, number)
    }
}

/// What is measured of all domains in one call. A domain whose monitor is busy says less.
pub fn stats(connect: &Connect, kinds: u32) -> Result<Vec<Listed>> {
    records(|records| {
        let flags = sys::VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT;
        // SAFETY: the connection is open; `records` takes the list.
        unsafe { sys::virConnectGetAllDomainStats(connect.as_ptr(), kinds, records, flags) }
    })
}

/// What is measured of one.
pub fn stats_of(domain: &Domain, kinds: u32) -> Result<Option<Listed>> {
    let mut list = [domain.as_ptr(), ptr::null_mut()];
    let all = records(|records| {
        let flags = sys::VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT;
        // SAFETY: the list ends with a null; `records` takes the answer.
        unsafe { sys::virDomainListGetStats(list.as_mut_ptr(), kinds, records, flags) }
    })?;
    Ok(all.into_iter().next())
}

fn records(
    call: impl FnOnce(*mut *mut sys::virDomainStatsRecordPtr) -> c_int,
) -> Result<Vec<Listed>> {
    let mut records: *mut sys::virDomainStatsRecordPtr = ptr::null_mut();
    let count = call(&raw mut records);
    if count < 0 {
        return Err(Error::last_error());
    }
    let mut all = Vec::new();
    for n in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: libvirt gave `count` records, each with `nparams` parameters.
        let listed = unsafe {
            let record = &**records.add(n);
            let (uuid, name, id) = who(record.dom);
            let mut stats = BTreeMap::new();
            for m in 0..usize::try_from(record.nparams).unwrap_or(0) {
                stats.extend([parameter(&*record.params.add(m))]);
            }
            Listed {
                uuid,
                name,
                id,
                stats,
                ..Listed::default()
            }
        };
        all.push(listed);
    }
    // SAFETY: the list is libvirt's own, and used no more.
    unsafe { sys::virDomainStatsRecordListFree(records) };
    Ok(all)
}

/// Ends the job of a domain.
pub fn abort_job(domain: &Domain) -> Result<()> {
    // SAFETY: the domain is alive.
    done(unsafe { sys::virDomainAbortJob(domain.as_ptr()) })
}

/// Switches a migration to post-copy.
pub fn start_postcopy(domain: &Domain) -> Result<()> {
    // SAFETY: the domain is alive.
    done(unsafe { sys::virDomainMigrateStartPostCopy(domain.as_ptr(), 0) })
}

/// How the job of a domain goes; `None`: there is none. (The crate's own form panics for a type it does not expect.)
pub fn job(domain: &Domain) -> Result<Option<Job>> {
    let (mut kind, mut params, mut count) = (0, ptr::null_mut(), 0);
    // SAFETY: libvirt allocates the parameters, which are freed below.
    let code = unsafe {
        sys::virDomainGetJobStats(
            domain.as_ptr(),
            &raw mut kind,
            &raw mut params,
            &raw mut count,
            0,
        )
    };
    done(code)?;
    let mut all = BTreeMap::new();
    for n in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: libvirt gave `count` parameters.
        all.extend([unsafe { parameter(&*params.add(n)) }]);
    }
    // SAFETY: they are libvirt's own, and used no more.
    unsafe { sys::virTypedParamsFree(params, count) };
    let number = |name: &str| all.get(name).and_then(Value::as_u64);
    Ok((kind > 0).then(|| Job {
        done: number("data_processed").unwrap_or(0),
        total: number("data_total").unwrap_or(0),
        iteration: number("memory_iteration"),
    }))
}

/// How the job on a disk goes.
pub fn block_job(domain: &Domain, disk: &str) -> Result<Option<Job>> {
    let disk = c(disk);
    let mut info = std::mem::MaybeUninit::<sys::virDomainBlockJobInfo>::zeroed();
    // SAFETY: libvirt fills in what it is given room for.
    let code = unsafe {
        sys::virDomainGetBlockJobInfo(domain.as_ptr(), disk.as_ptr(), info.as_mut_ptr(), 0)
    };
    if code == 0 {
        return Ok(None);
    }
    done(code.min(0))?;
    // SAFETY: it was zeroed, and zeros are valid in it.
    let info = unsafe { info.assume_init() };
    Ok(Some(Job {
        done: info.cur,
        total: info.end,
        iteration: None,
    }))
}

/// Begins to copy a disk to where `xml` says, which is there already.
pub fn block_copy(domain: &Domain, disk: &str, xml: &str) -> Result<()> {
    let (disk, xml) = (c(disk), c(xml));
    let flags = sys::VIR_DOMAIN_BLOCK_COPY_REUSE_EXT | sys::VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB;
    // SAFETY: the texts live during the call; no parameters.
    done(unsafe {
        sys::virDomainBlockCopy(
            domain.as_ptr(),
            disk.as_ptr(),
            xml.as_ptr(),
            ptr::null_mut(),
            0,
            flags,
        )
    })
}

/// Ends the job on a disk.
pub fn block_job_abort(domain: &Domain, disk: &str, pivot: bool) -> Result<()> {
    let disk = c(disk);
    let flags = if pivot {
        sys::VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT
    } else {
        0
    };
    // SAFETY: the text lives during the call.
    done(unsafe { sys::virDomainBlockJobAbort(domain.as_ptr(), disk.as_ptr(), flags) })
}

/// Which disks stopped the guest, and why.
pub fn disk_errors(domain: &Domain) -> Result<Vec<(String, String)>> {
    // SAFETY: without room, libvirt only says how many there are at most.
    let most = unsafe { sys::virDomainGetDiskErrors(domain.as_ptr(), ptr::null_mut(), 0, 0) };
    done(most)?;
    // SAFETY: zeros are valid in it.
    let zero: sys::virDomainDiskError = unsafe { std::mem::zeroed() };
    let mut errors = vec![zero; usize::try_from(most).unwrap_or(0)];
    // SAFETY: there is room for `most`.
    let count = unsafe {
        sys::virDomainGetDiskErrors(domain.as_ptr(), errors.as_mut_ptr(), most as u32, 0)
    };
    done(count)?;
    let mut all = Vec::new();
    for error in errors.iter().take(usize::try_from(count).unwrap_or(0)) {
        let why = match error.error as u32 {
            sys::VIR_DOMAIN_DISK_ERROR_NO_SPACE => "no space",
            _ => "the reason is not told",
        };
        // SAFETY: the name is a text that is ours to free, once.
        unsafe {
            all.push((text(error.disk), why.to_owned()));
            libc_free(error.disk.cast());
        }
    }
    Ok(all)
}

unsafe extern "C" {
    #[link_name = "free"]
    fn libc_free(what: *mut c_void);
}

fn c(text: &str) -> CString {
    // What is behind a NUL cannot be meant.
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

fn done(code: c_int) -> Result<()> {
    if code < 0 {
        Err(Error::last_error())
    } else {
        Ok(())
    }
}

/// Free memory of the host with what caches would give back, bytes.
pub fn free_memory(connect: &Connect) -> Option<u64> {
    let mut count = 0;
    let all = sys::VIR_NODE_MEMORY_STATS_ALL_CELLS;
    // SAFETY: without room, libvirt only says how many there are.
    let first = unsafe {
        sys::virNodeGetMemoryStats(connect.as_ptr(), all, ptr::null_mut(), &raw mut count, 0)
    };
    if first < 0 {
        return None;
    }
    // SAFETY: zeros are valid in it.
    let zero: sys::virNodeMemoryStats = unsafe { std::mem::zeroed() };
    let mut stats = vec![zero; usize::try_from(count).ok()?];
    // SAFETY: there is room for `count`.
    let second = unsafe {
        sys::virNodeGetMemoryStats(connect.as_ptr(), all, stats.as_mut_ptr(), &raw mut count, 0)
    };
    if second < 0 {
        return None;
    }
    let kib: u64 = stats
        .iter()
        // SAFETY: the name ends with a NUL.
        .map(|one| (unsafe { text(one.field.as_ptr()) }, one.value))
        .filter(|(name, _)| matches!(name.as_str(), "free" | "buffers" | "cached"))
        .map(|(_, value)| value)
        .sum();
    kib.checked_mul(1024)
}

/// Where events go.
type Sink = Box<dyn Fn(Happened) + Send + Sync>;
static SINK: OnceLock<Sink> = OnceLock::new();
static LOST: OnceLock<Box<dyn Fn(i32) + Send + Sync>> = OnceLock::new();

/// Has the end of the connection told; the number is libvirt's reason.
pub fn on_close(connect: &Connect, lost: Box<dyn Fn(i32) + Send + Sync>) {
    let _ = LOST.set(lost);
    // SAFETY: the callback is a plain function, and has nothing to free.
    unsafe {
        sys::virConnectRegisterCloseCallback(connect.as_ptr(), Some(closed), ptr::null_mut(), None)
    };
}

unsafe extern "C" fn closed(_: sys::virConnectPtr, reason: c_int, _: *mut c_void) {
    if let Some(lost) = LOST.get() {
        lost(reason);
    }
}

/// Has all that happens to domains told.
pub fn on_events(connect: &Connect, sink: Sink) {
    let _ = SINK.set(sink);
    type Any = unsafe extern "C" fn(sys::virConnectPtr, sys::virDomainPtr, *mut c_void);
    type Numbers = unsafe extern "C" fn(
        sys::virConnectPtr,
        sys::virDomainPtr,
        c_int,
        c_int,
        *mut c_void,
    ) -> c_int;
    type Word =
        unsafe extern "C" fn(sys::virConnectPtr, sys::virDomainPtr, *const c_char, *mut c_void);
    let register = |event: u32, callback: Any| {
        // SAFETY: each callback below has the signature that libvirt calls it with for its event; the generic type
        // is how libvirt takes all of them. An event that a driver does not know is refused, which is no fault.
        unsafe {
            sys::virConnectDomainEventRegisterAny(
                connect.as_ptr(),
                ptr::null_mut(),
                event.cast_signed(),
                Some(callback),
                ptr::null_mut(),
                None,
            )
        };
    };
    // SAFETY: function pointers of the C ABI have one size; libvirt calls each with its event's own signature.
    unsafe {
        register(
            sys::VIR_DOMAIN_EVENT_ID_LIFECYCLE,
            std::mem::transmute::<Numbers, Any>(lifecycle),
        );
        register(
            sys::VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE,
            std::mem::transmute::<Numbers, Any>(agent),
        );
        register(
            sys::VIR_DOMAIN_EVENT_ID_DEVICE_ADDED,
            std::mem::transmute::<Word, Any>(device_added),
        );
        register(
            sys::VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED,
            std::mem::transmute::<Word, Any>(device_removed),
        );
        register(
            sys::VIR_DOMAIN_EVENT_ID_DEVICE_REMOVAL_FAILED,
            std::mem::transmute::<Word, Any>(device_kept),
        );
        register(
            sys::VIR_DOMAIN_EVENT_ID_IO_ERROR_REASON,
            std::mem::transmute::<IoError, Any>(io_error),
        );
        register(
            sys::VIR_DOMAIN_EVENT_ID_METADATA_CHANGE,
            std::mem::transmute::<Metadata, Any>(metadata),
        );
        register(
            sys::VIR_DOMAIN_EVENT_ID_BALLOON_CHANGE,
            std::mem::transmute::<Balloon, Any>(balloon),
        );
        register(
            sys::VIR_DOMAIN_EVENT_ID_DISK_CHANGE,
            std::mem::transmute::<DiskChange, Any>(disk_change),
        );
        register(
            sys::VIR_DOMAIN_EVENT_ID_WATCHDOG,
            std::mem::transmute::<Numbers1, Any>(watchdog),
        );
    }
    register(sys::VIR_DOMAIN_EVENT_ID_REBOOT, reboot);
    register(sys::VIR_DOMAIN_EVENT_ID_CONTROL_ERROR, control_error);
}

/// # Safety
/// `domain` is alive during the call, as in every callback of libvirt.
unsafe fn tell(domain: sys::virDomainPtr, kind: &str, what: i32, detail: i32, texts: Vec<String>) {
    // SAFETY: as promised by the caller.
    let (uuid, name, _) = unsafe { who(domain) };
    if let Some(sink) = SINK.get() {
        sink(Happened {
            kind: kind.to_owned(),
            uuid,
            name,
            what,
            detail,
            texts,
        });
    }
}

type Con = sys::virConnectPtr;
type Dom = sys::virDomainPtr;
type IoError =
    unsafe extern "C" fn(Con, Dom, *const c_char, *const c_char, c_int, *const c_char, *mut c_void);
type Metadata = unsafe extern "C" fn(Con, Dom, c_int, *const c_char, *mut c_void);
type Balloon = unsafe extern "C" fn(Con, Dom, u64, *mut c_void);
type Numbers1 = unsafe extern "C" fn(Con, Dom, c_int, *mut c_void);
type DiskChange =
    unsafe extern "C" fn(Con, Dom, *const c_char, *const c_char, *const c_char, c_int, *mut c_void);

// SAFETY of all below: libvirt passes a domain and texts that live during the call.
unsafe extern "C" fn lifecycle(
    _: Con,
    dom: Dom,
    event: c_int,
    detail: c_int,
    _: *mut c_void,
) -> c_int {
    unsafe { tell(dom, "lifecycle", event, detail, Vec::new()) };
    0
}
unsafe extern "C" fn agent(_: Con, dom: Dom, state: c_int, reason: c_int, _: *mut c_void) -> c_int {
    unsafe { tell(dom, "agent-lifecycle", state, reason, Vec::new()) };
    0
}
unsafe extern "C" fn reboot(_: Con, dom: Dom, _: *mut c_void) {
    unsafe { tell(dom, "reboot", 0, 0, Vec::new()) };
}
unsafe extern "C" fn control_error(_: Con, dom: Dom, _: *mut c_void) {
    unsafe { tell(dom, "control-error", 0, 0, Vec::new()) };
}
unsafe extern "C" fn watchdog(_: Con, dom: Dom, action: c_int, _: *mut c_void) {
    unsafe { tell(dom, "watchdog", action, 0, Vec::new()) };
}
unsafe extern "C" fn balloon(_: Con, dom: Dom, _: u64, _: *mut c_void) {
    unsafe { tell(dom, "balloon-change", 0, 0, Vec::new()) };
}
unsafe extern "C" fn device_added(_: Con, dom: Dom, alias: *const c_char, _: *mut c_void) {
    unsafe { tell(dom, "device-added", 0, 0, vec![text(alias)]) };
}
unsafe extern "C" fn device_removed(_: Con, dom: Dom, alias: *const c_char, _: *mut c_void) {
    unsafe { tell(dom, "device-removed", 0, 0, vec![text(alias)]) };
}
unsafe extern "C" fn device_kept(_: Con, dom: Dom, alias: *const c_char, _: *mut c_void) {
    unsafe { tell(dom, "device-removal-failed", 0, 0, vec![text(alias)]) };
}
unsafe extern "C" fn metadata(_: Con, dom: Dom, kind: c_int, uri: *const c_char, _: *mut c_void) {
    unsafe { tell(dom, "metadata-change", kind, 0, vec![text(uri)]) };
}
unsafe extern "C" fn disk_change(
    _: Con,
    dom: Dom,
    _: *const c_char,
    _: *const c_char,
    alias: *const c_char,
    reason: c_int,
    _: *mut c_void,
) {
    unsafe { tell(dom, "disk-change", reason, 0, vec![text(alias)]) };
}
unsafe extern "C" fn io_error(
    _: Con,
    dom: Dom,
    path: *const c_char,
    alias: *const c_char,
    action: c_int,
    reason: *const c_char,
    _: *mut c_void,
) {
    unsafe {
        tell(
            dom,
            "io-error",
            action,
            0,
            vec![text(path), text(alias), text(reason)],
        );
    };
}
