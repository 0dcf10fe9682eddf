//! Every bound of Upbeat, as a constant with the reason for its size.
//!
//! It leaves to others what happens at a bound: the module that meets it names the rule or the
//! error. The invariant: bounds that depend on each other are asserted against each other here, at
//! compile time, so that none can be changed alone into a contradiction.

/// Bytes of the head of a frame: three words of eight bytes.
pub const HEAD_BYTES: usize = 24;

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// Bytes of a slot of a ring: a pair of cache lines. Processors fetch lines in such pairs, so with
/// slots of one line a reader that waits for the next message takes part of the present one's.
pub const SLOT_BYTES: usize = 2 * LINE_BYTES;

/// Payload bytes of the short form, in which head and payload share one slot.
pub const SHORT_BYTES: usize = SLOT_BYTES - HEAD_BYTES;

/// Bytes of the page by which segments are measured. A host with bigger pages rounds up.
pub const PAGE_BYTES: usize = 4096;

/// Slots' worth of bytes at the start of every lane that hold its header (progress and the like).
pub const LANE_HEADER_SLOTS: usize = 4;

/// Bytes of the first segment of a lane: two pages, so that an idle session stays cheap.
pub const LANE_BYTES_FIRST: usize = 2 * PAGE_BYTES;

/// Slots of the first ring of a lane: its two pages less the lane's header.
pub const RING_SLOTS_FIRST: usize = LANE_BYTES_FIRST / SLOT_BYTES - LANE_HEADER_SLOTS;

/// Slots' worth of bytes of the biggest segment to which a lane grows (2 MiB, one huge page).
pub const RING_SLOTS_MAX: usize = 16_384;

/// Bytes of the biggest segment to which a lane grows, its header included.
pub const LANE_BYTES_MAX: usize = RING_SLOTS_MAX * SLOT_BYTES;

/// Slots at the end of a ring that only replies and control frames may take, so that two full
/// nodes can still answer each other.
pub const CONTROL_SLOTS: usize = 8;

/// Payload bytes of the longest message.
pub const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// Payload bytes of the longest message that a node takes, unless it is told otherwise: what one
/// message may have it reserve.
pub const TAKEN_BYTES_MAX: usize = 32 << 20;

/// The least that this may be set to, so that binding and messages that lie in a ring are always taken.
pub const TAKEN_BYTES_MIN: usize = 1 << 20;

/// Elements of a sequence whose elements may take no byte of a message.
pub const EMPTY_ELEMENTS_MAX: usize = 1 << 20;

/// Bytes of memory that a method keeps of one argument by reference for the next request. What was larger is
/// freed when its handler is done.
pub const KEPT_ARGUMENT_BYTES_MAX: usize = 256 << 10;

/// Slabs of one direction of a session: segments with buffers in which payloads lie that are too
/// long for a slot.
pub const SLABS_MAX: usize = 32;

/// Bytes of the buffers of a slab, from the smallest. What is longer has a slab of its own.
pub const BUFFER_BYTES: [usize; 4] = [512, 2048, 8192, MEDIUM_BYTES_MAX];

/// Buffers of a slab of each of those sizes.
pub const BUFFERS: [u32; 4] = [64, 64, 64, 32];

/// Buffers of the first slab of each of those sizes: few, for most sessions do not need more.
pub const BUFFERS_FIRST: [u32; 4] = [8, 4, 2, 2];

/// Slabs of one size for requests, and as many for answers. Requests for which room was granted have
/// one. Answers and those must not wait for requests that wait.
pub const SLABS_PER_SIZE_MAX: usize = 2;

/// Slabs for long requests; as many for those for which room was granted, and as many for long answers.
pub const SLABS_LONG_MAX: usize = 4;

/// Such slabs of which a receiver keeps buffers, to read them in place for longer than their messages
/// are handled: as many are left to what comes meanwhile.
pub const LONG_KEPT_MAX: usize = 2;

/// Bytes of such a slab that has more than one buffer: a writer that is so far ahead does not feel its
/// reader's pauses. With four buffers of 256 KiB a stream was a third slower than a bare ring, which is
/// the fastest with so many bytes.
pub const LONG_SLAB_BYTES: usize = 8 << 20;

/// Bytes by which the size of a long buffer is measured.
pub const LONG_STEP_BYTES: usize = 256 << 10;

/// Bytes of long buffers that one direction of a session has at most, of which a slab counts
/// half at the most: what a peer that does not read can make its sender keep. Half of them its peer
/// may keep to read in place, and what comes meanwhile takes the other half.
pub const LONG_BYTES_MAX: usize = 256 << 20;

/// The generation of the first slab's segment. Those of the segments in which a lane goes on are
/// far below.
pub const SLAB_GENERATION: u32 = 1 << 16;

/// Bytes of one extension at the start of a payload (a deadline, a time stamp).
pub const EXTENSION_BYTES: usize = 8;

/// Bytes of the name of a lock that travels with stamps; a longer one is cut.
pub const LOCK_NAME_BYTES_MAX: usize = 64;

/// Payload bytes of the longest frame of stamps: a word that says which, the stamps of a message
/// that passes 32 points, and the name of a lock.
pub const STAMPS_BYTES_MAX: usize = 8 + 32 * 8 + LOCK_NAME_BYTES_MAX;

/// Messages after which a sender flushes even in the middle of a turn.
pub const FLUSH_MESSAGES: usize = 32;

/// Open calls of one direction of a session. The callee accepts no call number beyond it.
pub const CALLS_PER_SESSION_MAX: usize = 4096;

/// Payload bytes of the longest request that is accepted of a session that holds nothing whatever its
/// node holds, and of the biggest buffer of a slab that has several.
pub const MEDIUM_BYTES_MAX: usize = 64 << 10;

/// Requests of one session that may be on their way without room having been asked for. The paper's
/// threshold: it bounds the places of refused ones at the receiver. Short ones at full speed fill it
/// while their receiver says how far it is.
pub const OPTIMISM: usize = 4096;

/// Payload bytes of the longest message that lies in consecutive slots while nothing is refused. A
/// buffer of its own costs more: 256 bytes there and back take 590 ns instead of 320, and of 4 KiB
/// a third gets through.
pub const IN_RING_BYTES_MAX: usize = MEDIUM_BYTES_MAX;

/// Bytes of the longest message that a sender writes into consecutive slots over a byte stream. Sender and receiver
/// copy such a payload through their own memory. A buffer that they used a moment ago is probably still in their
/// caches; the slots of a ring of 2 MiB are not. A call with 64 KiB each way took 44 us over TCP through buffers
/// and 57 us through rings; bare sockets took 34 us.
pub const IN_STREAMED_RING_BYTES_MAX: usize = 16 << 10;

/// Bytes of a buffer that go over a byte stream in one record: what else is to be shipped goes between two
/// of them.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;

/// Bytes of slots whose frames are deferred behind the bytes of a long payload: so much of a lane is passed by answers
/// that stand behind it.
pub const DEFERRED_BYTES_MAX: usize = 256 << 10;

/// Bytes that a session over a byte stream has encoded and not sent: no more is taken out of its lane
/// before those have gone.
pub const STREAM_OUT_BYTES: usize = 64 << 10;

/// Bytes of the longest payload for which a quote assumes one read from a byte stream. That read also returns the
/// message's head and short records before it.
pub const STREAM_WHOLE_BYTES: usize = 6 << 10;

/// Bytes of refused requests that lay in the ring, of which the receiver keeps copies: what is on
/// its way when a sender hears of a refusal is no more than the biggest ring.
pub const COPIED_BYTES_MAX: usize = RING_SLOTS_MAX * SLOT_BYTES;

/// Places beyond those, for short requests that go straight into them and for reservations.
pub const PLACES_RESERVED: usize = 64;

/// Places that a receiver keeps for the requests of one session that it has heard of and not
/// accepted.
pub const PLACES_MAX: usize = OPTIMISM + PLACES_RESERVED;

/// Reservations of one session that are granted before the first of them is made use of: one is
/// filled while another is read.
pub const GRANTS_AHEAD: usize = 4;

/// Nanoseconds for which a grant is kept for a sender that was woken and does not respond. A busy runtime
/// may poll late, and has to ask again if it was too late.
pub const GRANT_KEPT_NS: u64 = 100_000_000;

/// Bytes that an accepted request is counted with beyond its payload: its task, its place.
pub const REQUEST_BYTES: usize = 256;

/// Bytes of accepted requests that a node holds before it refuses more, unless it is told
/// otherwise.
pub const BUDGET_BYTES: u64 = 256 << 20;

/// Bytes of accepted requests of one session: a quarter, so that one peer does not take all.
pub const SESSION_BUDGET_BYTES: u64 = BUDGET_BYTES / 4;

/// Bytes that peers of other hosts make a node hold, unless it is told otherwise: rings in which their lanes go
/// on, and their buffers. It is more where [`REMOTE_MESSAGES_MIN`] of the longest messages take more.
pub const REMOTE_BYTES: u64 = 256 << 20;

/// Messages of the longest kind that fit those bytes, where nobody says.
pub const REMOTE_MESSAGES_MIN: u64 = 4;

/// Bytes of replies that wait for room to be sent, up to which further requests of their session are
/// accepted: as many as the longest lane holds. A session whose peer does not read makes its callee do no
/// more than that for nothing.
pub const REPLIES_AHEAD_BYTES: u64 = LANE_BYTES_MAX as u64;

/// Bytes of unread replies that a caller's session copies into memory of its own.
/// While it keeps less it copies the next; replies beyond that are dropped, and their callers told.
pub const UNREAD_BYTES_MAX: usize = LONG_BYTES_MAX;

/// Bytes of a node's board: one page.
pub const BOARD_BYTES: usize = PAGE_BYTES;

/// Bytes at the start of a board that say that something was noted: one line.
pub const BOARD_HEADER_BYTES: usize = LINE_BYTES;

/// Sessions of one node: the bytes of its board behind its header, one each.
pub const SESSIONS_PER_NODE_MAX: usize = BOARD_BYTES - BOARD_HEADER_BYTES;

/// Sessions of one node with nodes of other hosts, which have no byte on the board: each takes a descriptor, of
/// which a process has fewer.
pub const REMOTE_SESSIONS_MAX: usize = (1 << 16) - SESSIONS_PER_NODE_MAX;

/// Bytes of the name of a node, such as `worker/3`. A socket path must hold it.
pub const NAME_BYTES_MAX: usize = 64;

/// Bytes of the name of a program.
pub const PROGRAM_BYTES_MAX: usize = 64;

/// Bytes of the name of a service or of a method.
pub const IDENT_BYTES_MAX: usize = 128;

/// Methods that one session can number, all services together. Number 0 is `bind` itself.
pub const METHODS_PER_SESSION_MAX: usize = 4096;

/// Methods of one service, and so of one bind request.
pub const METHODS_PER_SERVICE_MAX: usize = 512;

/// Bytes of the text of a signature, its types' schemas folded in. What is longer is shown cut;
/// its hash still covers the whole.
pub const SIGNATURE_BYTES_MAX: usize = 1024;

/// Bytes of an encoded bind request or bind reply.
pub const BIND_BYTES_MAX: usize = 768 * 1024;

/// Bytes of the header of a handshake record.
pub const RECORD_HEADER_BYTES: usize = 16;

/// Bytes of a handshake record, its header included.
pub const HELLO_BYTES_MAX: usize = 2048;

/// Descriptors that ride beside one handshake record.
pub const DESCRIPTORS_PER_RECORD_MAX: usize = 3;

/// Milliseconds in which a peer must have finished its handshake.
pub const HANDSHAKE_MS_MAX: u64 = 2_000;

/// Handshakes that a listening node keeps unfinished at a time. The next connection waits until one of
/// them has ended, or until the peer of one was silent for too long, which then gives way.
pub const PENDING_HANDSHAKES_MAX: usize = 64;

/// Milliseconds without a first record after which the oldest such connection gives way to the next: an
/// honest caller sends its hello right after it has connected.
pub const HELLO_MS_MAX: u64 = 10;

/// Milliseconds of silence after which an unfinished handshake gives way to the next: an honest caller
/// answers as soon as it runs.
pub const HANDSHAKE_SILENCE_MS_MAX: u64 = 100;

/// Milliseconds in which a node must have accepted a connection: for so long its caller waits in its
/// queue, and tries again where the queue is full.
pub const CONNECT_MS_MAX: u64 = 10_000;

/// Milliseconds in which a peer on another host must have finished its handshake, once it is connected.
pub const REMOTE_HANDSHAKE_MS_MAX: u64 = 5_000;

/// Handshakes with peers on other hosts that a listening node keeps unfinished at a time.
pub const REMOTE_PENDING_MAX: usize = 256;

/// Milliseconds of silence after which one of those gives way to the next connection.
pub const REMOTE_SILENCE_MS_MAX: u64 = 1_000;

/// Handshakes of those that callers of one address have under way before one of theirs gives way, and sooner,
/// where others wait.
pub const REMOTE_PENDING_SHARE: usize = REMOTE_PENDING_MAX / 4;

/// Milliseconds without a first byte after which such a handshake gives way: an honest caller's greeting is on
/// its way when the connection is accepted.
pub const CROWD_HELLO_MS_MAX: u64 = 100;

/// Milliseconds after which such a handshake gives way that goes on: some three times there and back.
pub const CROWD_AGE_MS_MAX: u64 = 500;

/// Connections from other hosts that a node accepts a second, unless it is told otherwise: a handshake under
/// TLS takes a processor about a millisecond.
pub const ACCEPTS_PER_SECOND: u32 = 1_000;

/// Sessions that callers of one address may have with a node, unless it is told otherwise.
pub const SESSIONS_PER_ADDRESS: usize = 4_096;

/// Milliseconds after which a peer on another host that does not answer is lost, where nobody says.
pub const PEER_TIMEOUT_MS: u32 = 10_000;

/// Milliseconds for which a session between hosts outlives its connection, where nobody says.
pub const RESUME_WITHIN_MS: u32 = 5_000;

/// How long the handler of a one-way message goes on, as a task, when its sender is gone, where its method
/// says nothing else.
pub const ONEWAY_ORPHAN_MS: u64 = 10_000;

/// Segments that came over the socket and whose frame in the lane has not been read yet: those in
/// which the lane goes on, and slabs.
pub const PENDING_SEGMENTS_MAX: usize = 2 + SLABS_MAX;

/// Bytes of the text of a failed call or of a refusal.
pub const ERROR_TEXT_BYTES_MAX: usize = 1024;

/// Times a second at which a polling node looks at its sockets.
pub const WATCHES_PER_SECOND_MAX: u64 = 1_000;

/// Nanoseconds between two looks of a node at every lane, for notes that were lost.
pub const SWEEP_NS: u64 = 50_000_000;

/// Nanoseconds for which a handler may run without a pause before it is named in a bill: nothing
/// else runs on its node meanwhile, and waking a sleeping node takes half of it.
pub const HANDLER_BUDGET_NS: u64 = 100_000;

/// Streams of one session that are open at the node that serves: those of results that it writes, and those
/// of arguments that it reads.
pub const STREAMS_PER_SESSION_MAX: usize = 256;

/// Items of a stream that go in one message: as many as are there, but no more, so that a batch is
/// within a handler's budget.
pub const STREAM_ITEMS_MAX: usize = 256;

/// Bytes of such items, of which the last may go beyond. What a reader and a writer hold of a stream is a
/// few times that.
pub const STREAM_BYTES_MAX: usize = 32 << 10;

// A silent connection gives way before its handshake times out, and a caller that gave way tries again.
const _: () = assert!(HELLO_MS_MAX < HANDSHAKE_SILENCE_MS_MAX);
const _: () = assert!(HANDSHAKE_SILENCE_MS_MAX < HANDSHAKE_MS_MAX);
const _: () = assert!(HANDSHAKE_MS_MAX < CONNECT_MS_MAX);

// Replies that wait stop their session's requests before they fail.
const _: () = assert!(REPLIES_AHEAD_BYTES <= SESSION_BUDGET_BYTES);
// A reply that is refused for want of a copy is none that a buffer holds.
const _: () = assert!(UNREAD_BYTES_MAX >= MEDIUM_BYTES_MAX);

// A head fits its slot, with bytes behind it.
const _: () = assert!(HEAD_BYTES + SHORT_BYTES == SLOT_BYTES && SHORT_BYTES > 0);
const _: () = assert!(HEAD_BYTES.is_multiple_of(8) && SLOT_BYTES.is_power_of_two());
const _: () = assert!(SHORT_BYTES <= u16::MAX as usize);

// An extension fits the short form, so a short call with a deadline stays in one line.
const _: () = assert!(EXTENSION_BYTES <= SHORT_BYTES);

// Segments are whole pages, and a ring is what remains behind the header.
const _: () = assert!(LANE_BYTES_FIRST.is_multiple_of(PAGE_BYTES));
const _: () = assert!(LANE_BYTES_MAX.is_multiple_of(PAGE_BYTES));
const _: () = assert!(RING_SLOTS_FIRST == 60);
const _: () = assert!(LANE_BYTES_FIRST < LANE_BYTES_MAX && LANE_BYTES_MAX <= u32::MAX as usize);

// A buffer's reference and a segment's record can say any length, and a single buffer's pages too.
const _: () = assert!(MESSAGE_BYTES_MAX + LONG_STEP_BYTES <= u32::MAX as usize);
// What lies in the ring fits the biggest one beside the control slots, wherever that stands.
const _: () = assert!(
    2 * (HEAD_BYTES + IN_RING_BYTES_MAX).div_ceil(SLOT_BYTES) + CONTROL_SLOTS <= RING_SLOTS_MAX
);
// Every slab has a number.
const _: () =
    assert!(BUFFER_BYTES.len() * (2 * SLABS_PER_SIZE_MAX + 1) + 3 * SLABS_LONG_MAX <= SLABS_MAX);
// What is granted ahead has buffers, whatever else waits.
const _: () = assert!(BUFFERS[3] as usize >= GRANTS_AHEAD && SLABS_LONG_MAX >= GRANTS_AHEAD);
// What is kept leaves buffers to what comes, of which one at least is on its way.
const _: () = assert!(LONG_KEPT_MAX < SLABS_LONG_MAX);
// The smallest buffer holds more than a slot, the biggest what may go unasked.
const _: () = assert!(BUFFER_BYTES[0] > SHORT_BYTES && BUFFER_BYTES[3] >= MEDIUM_BYTES_MAX);
const _: () = assert!(BUFFERS[0] <= 64 && LONG_STEP_BYTES.is_multiple_of(PAGE_BYTES));

// A flush of short messages fits the first ring beside the control slots.
const _: () = assert!(FLUSH_MESSAGES + CONTROL_SLOTS <= RING_SLOTS_FIRST);
// A failure with the longest text fits half of the first ring, and so do stamps.
const _: () = assert!(HEAD_BYTES + 1 + ERROR_TEXT_BYTES_MAX <= RING_SLOTS_FIRST / 2 * SLOT_BYTES);
const _: () = assert!(STAMPS_BYTES_MAX <= ERROR_TEXT_BYTES_MAX);

// Call numbers are indexes below a power of two, method numbers fit their field.
const _: () = assert!(CALLS_PER_SESSION_MAX.is_power_of_two());
const _: () = assert!(METHODS_PER_SESSION_MAX <= u16::MAX as usize);
const _: () = assert!(METHODS_PER_SERVICE_MAX < METHODS_PER_SESSION_MAX);

// A socket path of 108 bytes leaves room for the directory before a name.
const _: () = assert!(NAME_BYTES_MAX <= 64 && PROGRAM_BYTES_MAX <= 64);

// A bind request of the longest service, its names, hashes and texts, fits its bound and a message.
const _: () = assert!(
    METHODS_PER_SERVICE_MAX * (IDENT_BYTES_MAX + SIGNATURE_BYTES_MAX + 16) + IDENT_BYTES_MAX + 16
        <= BIND_BYTES_MAX
);
const _: () = assert!(BIND_BYTES_MAX + EXTENSION_BYTES <= TAKEN_BYTES_MIN);
// A node can send messages as long as those that it takes.
const _: () = assert!(TAKEN_BYTES_MIN <= TAKEN_BYTES_MAX && TAKEN_BYTES_MAX <= MESSAGE_BYTES_MAX);
const _: () = assert!(IN_RING_BYTES_MAX <= TAKEN_BYTES_MIN);
// A receiver accepts every message that a sender over a byte stream writes into slots.
const _: () = assert!(IN_STREAMED_RING_BYTES_MAX <= IN_RING_BYTES_MAX);

// The longest records fit their bound: a hello with its three names, a refusal with its text.
const _: () =
    assert!(RECORD_HEADER_BYTES + 64 + 2 * NAME_BYTES_MAX + PROGRAM_BYTES_MAX <= HELLO_BYTES_MAX);
const _: () = assert!(RECORD_HEADER_BYTES + 16 + ERROR_TEXT_BYTES_MAX <= HELLO_BYTES_MAX);
