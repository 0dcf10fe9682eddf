# What is called over Cap'n Proto's RPC.
@0xc3a1f07e52b94d68;

interface Echo {
  # Nothing at all.
  null @0 ();
  # Bytes there and back.
  bytes @1 (data :Data) -> (data :Data);
  # A message.
  hit @2 (n :UInt64) -> stream;
  # What the messages since the last time were.
  tally @3 () -> (count :UInt64, sum :UInt64);
}
