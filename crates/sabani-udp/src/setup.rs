//! Opening a socket and finding out what the kernel grants.

use crate::address::{Family, RawAddr};
use crate::capabilities::{BufferGrant, Capabilities};
use crate::options::Options;
use crate::sys::{self, Head};
use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_SOCKET, SOL_UDP};
use socket2::{Domain, Protocol, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Datagrams that one message may hold: since Linux 6.9, and before.
const MAX_SEGMENTS: [usize; 2] = [128, 64];

/// A socket, set up.
pub(crate) struct Opened {
    pub socket: UdpSocket,
    pub local_addr: SocketAddr,
    pub family: Family,
    pub capabilities: Capabilities,
}

/// Opens a non-blocking socket bound to `addr` and asks for everything in `options`.
pub(crate) fn open(addr: SocketAddr, options: &Options) -> io::Result<Opened> {
    let wildcard = addr.ip().is_unspecified();
    let socket = new_socket(addr)?;
    let dual_stack = addr.is_ipv6() && wildcard && socket.set_only_v6(false).is_ok();
    let family = match addr {
        SocketAddr::V4(_) => Family::V4,
        SocketAddr::V6(_) => Family::V6 { mapped: dual_stack },
    };
    let fd = socket.as_fd();
    never_fragment(fd, family)?;
    if wildcard {
        report_destinations(fd, family)?;
    }
    let max_segments = if options.gso { probe_segments(fd) } else { 1 };
    let capabilities = Capabilities {
        gso: max_segments > 1,
        gro: options.gro && coalesce(fd).is_ok(),
        max_segments,
        recv_buffer: size_buffer(fd, &RECV_BUFFER, options.recv_buffer_bytes, options)?,
        send_buffer: size_buffer(fd, &SEND_BUFFER, options.send_buffer_bytes, options)?,
        reports_destination: wildcard,
        reports_ecn: options.ecn && report_ecn(fd, family).is_ok(),
        dual_stack,
        icmp_hints: queue_icmp_errors(fd, family),
    };
    socket.bind(&addr.into())?;
    let socket = UdpSocket::from(socket);
    let local_addr = socket.local_addr()?;
    tracing::debug!(%local_addr, ?capabilities, "socket open");
    Ok(Opened {
        socket,
        local_addr,
        family,
        capabilities,
    })
}

fn new_socket(addr: SocketAddr) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Opens a second socket on the port of `main`, connected to `peer` and set up like `main`, but that
/// nothing is coalesced or told beside the datagrams. `local` is the address to bind it to, where `main`
/// is bound to a wildcard.
///
/// While both carry `SO_REUSEADDR`, which is for an instant, another process could take the port too;
/// what others send in that instant comes to the new socket.
pub(crate) fn open_beside(
    main: &UdpSocket,
    peer: SocketAddr,
    local: Option<IpAddr>,
) -> io::Result<UdpSocket> {
    let at = main.local_addr()?;
    let family = match at {
        SocketAddr::V4(_) => Family::V4,
        SocketAddr::V6(_) => Family::V6 {
            mapped: !socket2::SockRef::from(main).only_v6()?,
        },
    };
    let socket = new_socket(at)?;
    let fd = socket.as_fd();
    // This thread may have moved to another network since.
    let network = sys::network(fd);
    if network.is_none() || network != sys::network(main.as_fd()) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    if let Family::V6 { mapped } = family {
        socket.set_only_v6(!mapped)?;
    }
    never_fragment(fd, family)?;
    queue_icmp_errors(fd, family);
    copy_buffer(main.as_fd(), fd, &RECV_BUFFER)?;
    copy_buffer(main.as_fd(), fd, &SEND_BUFFER)?;
    let shared = socket2::SockRef::from(main);
    shared.set_reuse_address(true)?;
    let bound = socket.set_reuse_address(true).and_then(|()| {
        socket.bind(
            &family
                .spell(local.unwrap_or(at.ip()), at.port(), peer)
                .into(),
        )
    });
    shared.set_reuse_address(false)?;
    socket.set_reuse_address(false)?;
    bound?;
    socket.connect(&family.spell(peer.ip(), peer.port(), peer).into())?;
    Ok(UdpSocket::from(socket))
}

/// Whether an address is not this machine's, or not any more. The system's answers to who sends from such
/// a one differ from version to version, and say other things of others.
#[cold]
pub(crate) fn is_gone(local: IpAddr) -> bool {
    let bound = UdpSocket::bind((local, 0));
    bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// Has trains arrive coalesced.
pub(crate) fn coalesce(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, SOL_UDP, libc::UDP_GRO, 1)
}

/// Has what is sent cut into datagrams of so many bytes; 0: not at all.
pub(crate) fn cut(fd: BorrowedFd<'_>, segment: u16) -> io::Result<()> {
    set(fd, SOL_UDP, libc::UDP_SEGMENT, segment.into())
}

/// Gives a socket the same buffer as another.
fn copy_buffer(from: BorrowedFd<'_>, to: BorrowedFd<'_>, kind: &BufferKind) -> io::Result<()> {
    let granted =
        sys::get_int(from, SOL_SOCKET, kind.option).map_err(io::Error::from_raw_os_error)?;
    // What is set is doubled.
    let value = granted / 2;
    if sys::set_int(to, SOL_SOCKET, kind.forced, value).is_err() {
        set(to, SOL_SOCKET, kind.option, value)?;
    }
    Ok(())
}

/// Sets an option of the IP layer: of IPv4, of IPv6, or of both on a socket that speaks both.
fn set_ip(fd: BorrowedFd<'_>, family: Family, v4: i32, v6: i32, value: i32) -> io::Result<()> {
    if family != Family::V4 {
        set(fd, IPPROTO_IPV6, v6, value)?;
    }
    if family != (Family::V6 { mapped: false }) {
        set(fd, IPPROTO_IP, v4, value)?;
    }
    Ok(())
}

fn set(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    sys::set_int(fd, level, name, value).map_err(io::Error::from_raw_os_error)
}

/// Datagrams leave whole or not at all, whatever the kernel believes of the path's MTU: the transport
/// finds that out by itself, and probes have to get past the kernel's opinion.
fn never_fragment(fd: BorrowedFd<'_>, family: Family) -> io::Result<()> {
    let (v4, v6) = (libc::IP_MTU_DISCOVER, libc::IPV6_MTU_DISCOVER);
    set_ip(fd, family, v4, v6, libc::IP_PMTUDISC_PROBE)
}

fn report_destinations(fd: BorrowedFd<'_>, family: Family) -> io::Result<()> {
    match family {
        Family::V4 => set(fd, IPPROTO_IP, libc::IP_PKTINFO, 1),
        // On a socket that speaks both, this one reports IPv4 destinations too.
        Family::V6 { .. } => set(fd, IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// Has the kernel report what datagrams say of congestion.
fn report_ecn(fd: BorrowedFd<'_>, family: Family) -> io::Result<()> {
    set_ip(fd, family, libc::IP_RECVTOS, libc::IPV6_RECVTCLASS, 1)
}

/// Also has full device queues reported as `ENOBUFS` instead of passing over them in silence.
fn queue_icmp_errors(fd: BorrowedFd<'_>, family: Family) -> bool {
    set_ip(fd, family, libc::IP_RECVERR, libc::IPV6_RECVERR, 1).is_ok()
}

/// How many datagrams the kernel takes in one message; 1 if it does not segment at all.
fn probe_segments(fd: BorrowedFd<'_>) -> usize {
    // Setting the option tells; set to zero it has no effect on later sends.
    if sys::set_int(fd, SOL_UDP, libc::UDP_SEGMENT, 1_000).is_err()
        || sys::set_int(fd, SOL_UDP, libc::UDP_SEGMENT, 0).is_err()
    {
        return 1;
    }
    let [larger, certain] = MAX_SEGMENTS;
    match loopback_takes(larger) {
        Ok(true) => larger,
        _ => certain,
    }
}

/// Sends a train of `segments` one-byte datagrams to a socket on the loopback interface.
fn loopback_takes(segments: usize) -> io::Result<bool> {
    let sink = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let source = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut head = Head {
        to: RawAddr::encode(sink.local_addr()?, Family::V4),
        ..Head::EMPTY
    };
    head.control.push_segment(1);
    let bytes = [0; MAX_SEGMENTS[0]];
    Ok(sys::send_one(source.as_fd(), &head, &bytes[..segments]).is_ok())
}

/// One direction's buffer: the option that sizes it, the privileged form, and the system's ceiling.
struct BufferKind {
    option: i32,
    forced: i32,
    sysctl: &'static str,
}

const RECV_BUFFER: BufferKind = BufferKind {
    option: libc::SO_RCVBUF,
    forced: libc::SO_RCVBUFFORCE,
    sysctl: "net.core.rmem_max",
};

const SEND_BUFFER: BufferKind = BufferKind {
    option: libc::SO_SNDBUF,
    forced: libc::SO_SNDBUFFORCE,
    sysctl: "net.core.wmem_max",
};

fn size_buffer(
    fd: BorrowedFd<'_>,
    kind: &BufferKind,
    bytes: usize,
    options: &Options,
) -> io::Result<BufferGrant> {
    // The kernel doubles the value, in an `int`.
    let value = i32::try_from(bytes).unwrap_or(i32::MAX).min(i32::MAX / 2);
    let forced = options.force_buffers && sys::set_int(fd, SOL_SOCKET, kind.forced, value).is_ok();
    if !forced {
        set(fd, SOL_SOCKET, kind.option, value)?;
    }
    let granted =
        sys::get_int(fd, SOL_SOCKET, kind.option).map_err(io::Error::from_raw_os_error)?;
    let grant = BufferGrant::judge(value as usize, granted.max(0) as usize, kind.sysctl);
    if let Some(cure) = &grant.cure {
        tracing::warn!(
            requested_bytes = grant.requested_bytes,
            granted_bytes = grant.granted_bytes,
            "socket buffer clamped, which costs throughput and causes loss; to cure it, run: {cure}"
        );
    }
    Ok(grant)
}
