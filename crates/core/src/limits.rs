//! The bounds of Upbeat, each a constant with the reason for its size.
//!
//! The module that meets a bound defines the rule or the error. Invariant: bounds that depend on each other are
//! asserted against each other here, at compile time, so that none can be changed alone into a contradiction.

/// Bytes of the head of a frame: three words of eight bytes.
pub const HEAD_BYTES: usize = 24;

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// Bytes of a slot of a ring: a pair of cache lines. Processors fetch lines in pairs, so with slots of one line a
/// reader that waits for the next message would steal half of the pair that is being written.
pub const SLOT_BYTES: usize = 2 * LINE_BYTES;

/// Payload bytes of the short form, in which head and payload share one slot.
pub const SHORT_BYTES: usize = SLOT_BYTES - HEAD_BYTES;

/// Bytes of a page, the unit of the size of segments. A host with larger pages rounds up.
pub const PAGE_BYTES: usize = 4096;

/// The size of the header at the start of every lane (progress and the like), in slots.
pub const LANE_HEADER_SLOTS: usize = 4;

/// Bytes of the first segment of a lane: two pages, so that an idle session needs little memory.
pub const LANE_BYTES_FIRST: usize = 2 * PAGE_BYTES;

/// Slots of the first ring of a lane: its two pages less the lane's header.
pub const RING_SLOTS_FIRST: usize = LANE_BYTES_FIRST / SLOT_BYTES - LANE_HEADER_SLOTS;

/// The size of the largest segment to which a lane grows (2 MiB, one huge page), in slots.
pub const RING_SLOTS_MAX: usize = 16_384;

/// Bytes of the largest segment to which a lane grows, including its header.
pub const LANE_BYTES_MAX: usize = RING_SLOTS_MAX * SLOT_BYTES;

/// Slots of a ring that are reserved for replies and control frames, so that two nodes with full lanes can still
/// reply to each other.
pub const CONTROL_SLOTS: usize = 8;

/// Payload bytes of the longest message.
pub const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// Payload bytes of the longest message that a node accepts by default: the memory that one message may make it
/// reserve.
pub const TAKEN_BYTES_MAX: usize = 32 << 20;

/// The smallest allowed value of that limit, so that binding, and messages in a ring, are always accepted.
pub const TAKEN_BYTES_MIN: usize = 1 << 20;

/// Elements of a sequence whose elements may take no bytes of a message.
pub const EMPTY_ELEMENTS_MAX: usize = 1 << 20;

/// Bytes of memory that a call's arguments together, a result or an item may take for each of their bytes in the message.
pub const VALUES_PER_BYTE_MAX: usize = 64;

/// Bytes of memory that these values may take, however few bytes they have in the message.
pub const VALUES_BYTES_ALWAYS: usize = 16 << 20;

/// Bytes of memory that these values may take at most, unless they have more than an eighth of that in the message.
pub const VALUES_BYTES_MAX: usize = 1 << 30;

/// Bytes of memory that a method keeps of one argument by reference for the next request. Larger memory is freed
/// when the handler is done.
pub const KEPT_ARGUMENT_BYTES_MAX: usize = 256 << 10;

/// Slabs of one direction of a session: segments with buffers for payloads that are too long for a slot.
pub const SLABS_MAX: usize = 32;

/// Bytes of the buffers of a slab, from the smallest. A longer payload gets a slab of its own length.
pub const BUFFER_BYTES: [usize; 4] = [512, 2048, 8192, MEDIUM_BYTES_MAX];

/// Buffers of a slab of each of those sizes.
pub const BUFFERS: [u32; 4] = [64, 64, 64, 32];

/// Buffers of the first slab of each of those sizes: few, since most sessions need no more.
pub const BUFFERS_FIRST: [u32; 4] = [8, 4, 2, 2];

/// Slabs of one size for requests, and as many for replies. Requests for which room was granted have one more.
/// Replies and granted requests must not wait for the buffers of waiting requests.
pub const SLABS_PER_SIZE_MAX: usize = 2;

/// Slabs for long requests; there are as many for granted long requests, and as many for long replies.
pub const SLABS_LONG_MAX: usize = 4;

/// Slabs for long payloads in which a receiver keeps buffers, to read them in place after their messages are
/// handled: as many are left for later messages.
pub const LONG_KEPT_MAX: usize = 2;

/// Bytes of a slab for long payloads with several buffers: a writer that is this far ahead is not held up by its
/// reader's pauses. With four buffers of 256 KiB a stream was a third slower than a bare ring, which is fastest
/// with this size.
pub const LONG_SLAB_BYTES: usize = 8 << 20;

/// The unit of the size of a long buffer in bytes.
pub const LONG_STEP_BYTES: usize = 256 << 10;

/// Bytes of long buffers of one direction of a session, to which one slab counts half at most. This is the memory
/// that a peer that does not read can make its sender keep. The peer may keep half of the bytes to read in place,
/// and later messages use the other half.
pub const LONG_BYTES_MAX: usize = 256 << 20;

/// The generation of the first slab's segment. Those of the segments in which a lane continues are far below.
pub const SLAB_GENERATION: u32 = 1 << 16;

/// Bytes of one extension at the start of a payload (a deadline, a time stamp).
pub const EXTENSION_BYTES: usize = 8;

/// Entries of the context that travels with a request: tenant, trace, priority and the like.
pub const CONTEXT_ENTRIES_MAX: usize = 16;

/// Bytes of the key of such an entry.
pub const CONTEXT_KEY_BYTES_MAX: usize = 64;

/// Bytes of all entries of a context together, their keys and lengths included. What has more is an argument.
pub const CONTEXT_BYTES_MAX: usize = 4096;

/// Bytes of the name of a lock that travels with stamps; a longer one is cut.
pub const LOCK_NAME_BYTES_MAX: usize = 64;

/// Payload bytes of the longest frame of stamps: a word that names the points, the stamps of a message that passes
/// 32 points, and the name of a lock.
pub const STAMPS_BYTES_MAX: usize = 8 + 32 * 8 + LOCK_NAME_BYTES_MAX;

/// Messages after which a sender flushes even in the middle of a turn.
pub const FLUSH_MESSAGES: usize = 32;

/// Open calls of one direction of a session. The callee accepts no call with a greater index.
pub const CALLS_PER_SESSION_MAX: usize = 4096;

/// Payload bytes of the longest request that a session that holds nothing gets accepted, however much its node
/// holds. The largest buffer of a slab with several buffers has this size too.
pub const MEDIUM_BYTES_MAX: usize = 64 << 10;

/// Requests of one session that may be on their way without a question for room. This is the paper's threshold: it
/// bounds the places of refused requests at the receiver. Short requests at full speed reach it while the
/// receiver's progress is on its way.
pub const OPTIMISM: usize = 4096;

/// Payload bytes of the longest message that lies in consecutive slots while no request is refused. A buffer of
/// its own costs more: 256 bytes in both directions take 590 ns instead of 320, and messages of 4 KiB have a third
/// of the throughput.
pub const IN_RING_BYTES_MAX: usize = MEDIUM_BYTES_MAX;

/// Bytes of the longest message that a sender writes into consecutive slots over a byte stream. Sender and
/// receiver copy such a payload through their own memory. A recently used buffer is probably still in their
/// caches, and the slots of a ring of 2 MiB are not. A call with 64 KiB in each direction took 44 us over TCP
/// through buffers and 57 us through rings; bare sockets took 34 us.
pub const IN_STREAMED_RING_BYTES_MAX: usize = 16 << 10;

/// Bytes of a buffer in one record of a byte stream. Other records can be shipped between two such records.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;

/// Bytes of slots whose frames are deferred behind a long payload. Replies that are written behind this much of a
/// lane can overtake it.
pub const DEFERRED_BYTES_MAX: usize = 256 << 10;

/// Bytes that a session over a byte stream has encoded and not sent. While there are this many, no more is taken
/// out of its lane.
pub const STREAM_OUT_BYTES: usize = 64 << 10;

/// Bytes of the longest payload for which a quote assumes one read from a byte stream. That read also returns the
/// message's head and short records before it.
pub const STREAM_WHOLE_BYTES: usize = 6 << 10;

/// Bytes of refused requests in the ring of which the receiver keeps copies. The bytes on their way when a sender
/// learns of a refusal are at most those of the largest ring.
pub const COPIED_BYTES_MAX: usize = RING_SLOTS_MAX * SLOT_BYTES;

/// Places beyond [`OPTIMISM`], for short requests that use them directly and for reservations.
pub const PLACES_RESERVED: usize = 64;

/// Places that a receiver keeps for the announced requests of one session that are not accepted.
pub const PLACES_MAX: usize = OPTIMISM + PLACES_RESERVED;

/// Reservations of one session that are granted before the first of them is used: one is filled while another is
/// read.
pub const GRANTS_AHEAD: usize = 4;

/// Nanoseconds for which a grant is kept for a woken sender. A busy runtime may poll later, and must then ask again.
pub const GRANT_KEPT_NS: u64 = 100_000_000;

/// Bytes that an accepted request is charged beyond its payload, for its task and its place.
pub const REQUEST_BYTES: usize = 256;

/// Bytes of accepted requests that a node holds by default before it refuses more.
pub const BUDGET_BYTES: u64 = 256 << 20;

/// Bytes of accepted requests of one session: a quarter of the budget, so that one peer cannot take all of it.
pub const SESSION_BUDGET_BYTES: u64 = BUDGET_BYTES / 4;

/// Bytes that peers of other hosts may make a node hold by default: the larger rings of their lanes, and their
/// buffers. The default is larger if [`REMOTE_MESSAGES_MIN`] of the longest messages need more.
pub const REMOTE_BYTES: u64 = 256 << 20;

/// The number of messages of the greatest length that fit those bytes by default.
pub const REMOTE_MESSAGES_MIN: u64 = 4;

/// Bytes of waiting replies up to which further requests of their session are accepted: for a peer that does not read.
pub const REPLIES_AHEAD_BYTES: u64 = LANE_BYTES_MAX as u64;

/// Bytes of accepted requests up to which a full node accepts more from a session whose handlers all wait for others.
pub const WAITERS_AHEAD_BYTES: u64 = LANE_BYTES_MAX as u64;

/// Bytes of unread replies that a caller's session copies into its own memory. While it holds less it copies the
/// next reply; later replies are dropped, and their callers get an error.
pub const UNREAD_BYTES_MAX: usize = LONG_BYTES_MAX;

/// Bytes of a node's board: one page.
pub const BOARD_BYTES: usize = PAGE_BYTES;

/// Bytes at the start of a board with the flag that something was noted: one line.
pub const BOARD_HEADER_BYTES: usize = LINE_BYTES;

/// Sessions of one node: one for each byte of its board behind the header.
pub const SESSIONS_PER_NODE_MAX: usize = BOARD_BYTES - BOARD_HEADER_BYTES;

/// Sessions of one node with nodes of other hosts, which have no byte on the board. Each takes a descriptor, and a
/// process has fewer of those.
pub const REMOTE_SESSIONS_MAX: usize = (1 << 16) - SESSIONS_PER_NODE_MAX;

/// Bytes of the name of a node, such as `worker/3`. A socket path must hold it.
pub const NAME_BYTES_MAX: usize = 64;

/// Bytes of the name of a program.
pub const PROGRAM_BYTES_MAX: usize = 64;

/// Bytes of the name of a service or of a method.
pub const IDENT_BYTES_MAX: usize = 128;

/// Methods that one session can number, for all services together. Number 0 is the method that binds.
pub const METHODS_PER_SESSION_MAX: usize = 4096;

/// Methods of one service, and therefore of one bind request.
pub const METHODS_PER_SERVICE_MAX: usize = 512;

/// Bytes of the text of a signature, including its types' schemas. A longer text is shown cut; its hash covers the
/// whole text.
pub const SIGNATURE_BYTES_MAX: usize = 1024;

/// Bytes of the text of a signature up to which each use of a type is written out. Behind them, a type that was begun
/// before is written as a name and a number, and the method is bound only to a method with the same signature.
pub const SCHEMA_REPEATS_BYTES_MAX: usize = 64 * 1024;

/// Fields with a default, and variants of enums with an `other` variant, in the types of one method. A method with more
/// of them is bound only to a method with the same signature.
pub const DEFAULT_FIELDS_MAX: usize = 200;

/// The same in one bind request. Methods for which it has no room are bound only to methods with the same signature.
pub const DEFAULT_FIELDS_PER_REQUEST_MAX: usize = 24 * 1024;

/// Bytes of an encoded bind request or bind reply.
pub const BIND_BYTES_MAX: usize = 992 * 1024;

/// Bytes of the header of a handshake record.
pub const RECORD_HEADER_BYTES: usize = 16;

/// Bytes of a handshake record, its header included.
pub const HELLO_BYTES_MAX: usize = 2048;

/// Descriptors that are passed beside one handshake record.
pub const DESCRIPTORS_PER_RECORD_MAX: usize = 3;

/// Milliseconds within which a peer must have finished its handshake.
pub const HANDSHAKE_MS_MAX: u64 = 2_000;

/// Unfinished handshakes of a listening node. The next connection waits until one of them has ended, or until the
/// peer of one was silent for too long; that handshake then gives way.
pub const PENDING_HANDSHAKES_MAX: usize = 64;

/// Milliseconds without a first record after which the oldest such connection gives way to the next: a correct
/// caller sends its hello right after it has connected.
pub const HELLO_MS_MAX: u64 = 10;

/// Milliseconds of silence after which an unfinished handshake gives way to the next: a correct caller answers as
/// soon as it runs.
pub const HANDSHAKE_SILENCE_MS_MAX: u64 = 100;

/// Milliseconds after which a caller is taken back that was handed to a node of a group and that this node does not
/// take: nobody drives the node, or one of its handlers computes.
pub const HANDED_MS_MAX: u64 = 100;

/// Milliseconds within which a node must have accepted a connection. A caller waits this long in the node's queue,
/// and retries while the queue is full.
pub const CONNECT_MS_MAX: u64 = 10_000;

/// Milliseconds within which a connected peer on another host must have finished its handshake.
pub const REMOTE_HANDSHAKE_MS_MAX: u64 = 5_000;

/// Unfinished handshakes of a listening node with peers on other hosts. Callers of one address that send a whole first
/// message and nothing behind it hold nobody up until more of them come a second than the node answers by default.
pub const REMOTE_PENDING_MAX: usize = 512;

/// Milliseconds without a whole first message after which the oldest such handshake gives way to the next connection:
/// a correct caller's first message is on its way when the connection is accepted. Together with
/// [`REMOTE_PENDING_MAX`], callers that say nothing hold nobody up until 25,600 of them come a second.
pub const REMOTE_HELLO_MS_MAX: u64 = 20;

/// Milliseconds of silence after a message after which such a handshake gives way to the next connection.
pub const REMOTE_SILENCE_MS_MAX: u64 = 1_000;

/// Handshakes that callers of one address may have under way before one of them gives way, and sooner, while
/// others wait.
pub const REMOTE_PENDING_SHARE: usize = REMOTE_PENDING_MAX / 8;

/// Milliseconds after which such a handshake gives way although it progresses: about three round trips.
pub const CROWD_AGE_MS_MAX: u64 = 500;

/// Milliseconds after which a node that leaves callers in the queue of a socket looks again, whatever it waits for.
pub const PAUSE_MS_MAX: u64 = 100;

/// Handshakes with callers of other hosts that a node answers per second by default: a first message under TLS
/// takes a processor about 0.3 milliseconds.
pub const ACCEPTS_PER_SECOND: u32 = 1_000;

/// Sessions that callers of one address may have with a node by default.
pub const SESSIONS_PER_ADDRESS: usize = 4_096;

/// Milliseconds after which a silent peer on another host is lost, by default.
pub const PEER_TIMEOUT_MS: u32 = 10_000;

/// Milliseconds for which a session between hosts outlives its connection, by default.
pub const RESUME_WITHIN_MS: u32 = 5_000;

/// Milliseconds for which a handle or a node that ends waits until the hosts of its peers have everything that it has
/// sent over byte streams. A receiver that is busy for longer loses the rest, and the sender says so.
pub const LEAVING_MS_MAX: u64 = 5_000;

/// Milliseconds for which the handler of a one-way message continues, as a task, after its sender is gone, by
/// default.
pub const ONEWAY_ORPHAN_MS: u64 = 10_000;

/// Segments that came over the socket and whose frame in the lane has not been read yet: segments in which the
/// lane continues, and slabs.
pub const PENDING_SEGMENTS_MAX: usize = 2 + SLABS_MAX;

/// Bytes of the text of a failed call or of a refusal.
pub const ERROR_TEXT_BYTES_MAX: usize = 1024;

/// The looks of a node that is awake into its epoll per second. A node that passes over sockets makes more.
pub const WATCHES_PER_SECOND: u64 = 1_000;

/// Nanoseconds between two sweeps of a node over every lane, for notes that were lost.
pub const SWEEP_NS: u64 = 50_000_000;

/// Nanoseconds for which a handler may run without a pause before a bill names it. No other code runs on its node
/// meanwhile, and waking a sleeping node takes half of this time.
pub const HANDLER_BUDGET_NS: u64 = 100_000;

/// Nanoseconds for which a task of the application, or the main future of a node that serves methods, may run without
/// a pause before it is reported. Such a future has no caller that waits for it, but all callers of its node wait.
pub const TASK_BUDGET_NS: u64 = 1_000_000;

/// Streams of one session that are open at the serving node: the results that it writes, and the arguments that it
/// reads.
pub const STREAMS_PER_SESSION_MAX: usize = 256;

/// Items of a stream in one message. The limit keeps the work for a batch within a handler's budget.
pub const STREAM_ITEMS_MAX: usize = 256;

/// Bytes of the items of one message, which the last item may exceed. A reader and a writer of a stream hold a few
/// times this much.
pub const STREAM_BYTES_MAX: usize = 32 << 10;

/// Words of an exported value, which its owner reserves: 64 MiB, and versions.
pub const EXPORT_WORDS_MAX: usize = (8 << 20) + (64 << 10);

/// Structs and arrays of an exported type in each other, which bounds the stack of those who walk it.
pub const EXPORT_DEPTH_MAX: usize = 16;

/// Fields of a struct of an exported type.
pub const EXPORT_FIELDS_MAX: usize = 256;

/// Parts of an export that a reader asks for at once. Their words are bounded by those of a value.
pub const EXPORT_PARTS_MAX: usize = 1024;

/// Elements of an array that an expression runs over, which takes about a tenth of a millisecond.
pub const EXPRESSION_ELEMENTS_MAX: usize = 1 << 16;

/// Bytes of the name of an export.
pub const EXPORT_NAME_BYTES_MAX: usize = 64;

/// Bytes of a segment with exports. Each reader maps whole segments.
pub const EXPORT_SEGMENT_BYTES_MAX: usize = 1 << 30;

/// Segments with exports that wait in a session until their imports map them. The first of more give way: an import that is
/// being made opens its export again, and one that follows a move reads by a call.
pub const EXPORT_SEGMENTS_WAITING_MAX: usize = 64;

/// The generation of the first segment with exports that a session sends. Slabs, which are far fewer, count below.
pub const EXPORT_GENERATION: u32 = 1 << 30;

/// Segments with exports that a process keeps mapped although their owners need them no more: the exports that it reads
/// there have ended or moved.
pub const EXPORT_COPIES_MAX: usize = 256;

/// Bytes of such segments.
pub const EXPORT_COPIES_BYTES_MAX: usize = 256 << 20;

/// Bytes of a path to a part of an exported value.
pub const EXPORT_PATH_BYTES_MAX: usize = 4 << 10;

/// Steps of a path that the memory decides: options, vectors, maps, pointers, and indexes that lie in the export.
pub const EXPORT_STEPS_MAX: usize = 64;

/// Words of a key of an exported map.
pub const EXPORT_KEY_WORDS_MAX: usize = 32;

/// Bytes of the text that describes an exported type.
pub const EXPORT_TEXT_BYTES_MAX: usize = 16 << 10;

// A path names a field of the longest name at each level.
const _: () = assert!(EXPORT_DEPTH_MAX * (1 + IDENT_BYTES_MAX) <= EXPORT_PATH_BYTES_MAX);

// A silent connection gives way before its handshake times out, and a caller that had to give way retries.
const _: () = assert!(HELLO_MS_MAX < HANDSHAKE_SILENCE_MS_MAX);
const _: () =
    assert!(REMOTE_PENDING_MAX as u64 * 1_000 / CROWD_AGE_MS_MAX > ACCEPTS_PER_SECOND as u64);
const _: () =
    assert!(REMOTE_HELLO_MS_MAX < CROWD_AGE_MS_MAX && CROWD_AGE_MS_MAX < REMOTE_SILENCE_MS_MAX);
const _: () = assert!(HANDSHAKE_SILENCE_MS_MAX < HANDSHAKE_MS_MAX);
const _: () = assert!(HANDSHAKE_MS_MAX < CONNECT_MS_MAX);
// The caller's handshake has time left when another node takes it.
const _: () = assert!(2 * HANDED_MS_MAX < HANDSHAKE_MS_MAX);

// Waiting replies hold up their session's requests before further replies fail.
const _: () = assert!(REPLIES_AHEAD_BYTES <= SESSION_BUDGET_BYTES);
// A reply that fits a buffer is never refused for want of a copy.
const _: () = assert!(UNREAD_BYTES_MAX >= MEDIUM_BYTES_MAX);

// A head fits its slot, with bytes left behind it.
const _: () = assert!(HEAD_BYTES + SHORT_BYTES == SLOT_BYTES && SHORT_BYTES > 0);
const _: () = assert!(HEAD_BYTES.is_multiple_of(8) && SLOT_BYTES.is_power_of_two());
const _: () = assert!(SHORT_BYTES <= u16::MAX as usize);

// The lengths of a context's fields are said in two bytes, and one entry of the longest key fits.
const _: () = assert!(CONTEXT_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(CONTEXT_KEY_BYTES_MAX + 4 <= CONTEXT_BYTES_MAX);

// An extension fits the short form, so a short call with a deadline stays in one slot.
const _: () = assert!(EXTENSION_BYTES <= SHORT_BYTES);

// Segments are whole pages, and the ring is the rest of a segment behind the header.
const _: () = assert!(LANE_BYTES_FIRST.is_multiple_of(PAGE_BYTES));
const _: () = assert!(LANE_BYTES_MAX.is_multiple_of(PAGE_BYTES));
const _: () = assert!(RING_SLOTS_FIRST == 60);
const _: () = assert!(LANE_BYTES_FIRST < LANE_BYTES_MAX && LANE_BYTES_MAX <= u32::MAX as usize);

// The reference to a buffer, and the record of a segment, can express any length, and so can a buffer's pages.
const _: () = assert!(MESSAGE_BYTES_MAX + LONG_STEP_BYTES <= u32::MAX as usize);
// A message in the ring fits the largest ring beside the control slots, at any position.
const _: () = assert!(
    2 * (HEAD_BYTES + IN_RING_BYTES_MAX).div_ceil(SLOT_BYTES) + CONTROL_SLOTS <= RING_SLOTS_MAX
);
// Every slab has a number.
const _: () =
    assert!(BUFFER_BYTES.len() * (2 * SLABS_PER_SIZE_MAX + 1) + 3 * SLABS_LONG_MAX <= SLABS_MAX);
// There are buffers for all grants, whatever else waits.
const _: () = assert!(BUFFERS[3] as usize >= GRANTS_AHEAD && SLABS_LONG_MAX >= GRANTS_AHEAD);
// Kept buffers leave others for later messages, of which at least one is on its way.
const _: () = assert!(LONG_KEPT_MAX < SLABS_LONG_MAX);
// The smallest buffer holds more than a slot, and the largest holds the longest request that may be sent without
// asking.
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

// A bind request of the largest service, with its names, hashes and texts, fits its bound and a message.
const _: () = assert!(
    METHODS_PER_SERVICE_MAX * (IDENT_BYTES_MAX + SIGNATURE_BYTES_MAX + 32)
        + 16 * DEFAULT_FIELDS_PER_REQUEST_MAX
        + IDENT_BYTES_MAX
        + 16
        <= BIND_BYTES_MAX
);
const _: () = assert!(DEFAULT_FIELDS_MAX <= u8::MAX as usize);
const _: () = assert!(BIND_BYTES_MAX + EXTENSION_BYTES <= TAKEN_BYTES_MIN);
// A node can send messages as long as those that it accepts.
const _: () = assert!(TAKEN_BYTES_MIN <= TAKEN_BYTES_MAX && TAKEN_BYTES_MAX <= MESSAGE_BYTES_MAX);
const _: () = assert!(IN_RING_BYTES_MAX <= TAKEN_BYTES_MIN);
// A receiver accepts every message that a sender over a byte stream writes into slots.
const _: () = assert!(IN_STREAMED_RING_BYTES_MAX <= IN_RING_BYTES_MAX);

// The longest records fit their bound: a hello with its three names, a refusal with its text.
const _: () =
    assert!(RECORD_HEADER_BYTES + 64 + 2 * NAME_BYTES_MAX + PROGRAM_BYTES_MAX <= HELLO_BYTES_MAX);
const _: () = assert!(RECORD_HEADER_BYTES + 16 + ERROR_TEXT_BYTES_MAX <= HELLO_BYTES_MAX);
