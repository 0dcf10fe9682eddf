//! Arguments have names, and there are not too many.

struct Pair {
    a: u64,
    b: u64,
}

#[upbeat::service]
trait Counter {
    async fn pattern(&self, (a, b): (u64, u64)) -> u64;
    async fn fields(&self, Pair { a, b }: Pair) -> u64;
    async fn nameless(&self, _: u64) -> u64;
    async fn changing(&self, mut n: u64) -> u64;
    async fn twice(&self, n: u64, n: u64) -> u64;
    async fn conditional(&self, #[cfg(unix)] n: u64) -> u64;
    async fn many(
        &self,
        a: u8,
        b: u8,
        c: u8,
        d: u8,
        e: u8,
        f: u8,
        g: u8,
        h: u8,
        i: u8,
        j: u8,
        k: u8,
        l: u8,
        m: u8,
    );
}

fn main() {}
