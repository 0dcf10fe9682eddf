//! Options that are said twice, or with more than there is to say, or that are no words.

#[upbeat::service]
trait Shop {
    #[method(nack, nack)]
    async fn twice(&self);
    #[method(nack)]
    #[method(nack)]
    async fn apart(&self);
    #[method(nack = true)]
    async fn value(&self);
    #[method("nack")]
    async fn text(&self);
    #[method = "nack"]
    async fn equals(&self);
}

#[upbeat::service]
trait Bank {
    async fn budget(&self);
    async fn apart(&self);
    async fn behind(&self);
    async fn many(&self, sum: u64);
    async fn path(&self);
}

struct Vault {
    open: bool,
}

#[upbeat::service(serial, serial)]
impl Bank for Vault {
    #[method(budget = "1ms", budget = "2ms")]
    async fn budget(&self) {}

    #[method(yields)]
    #[method(execution = "orpc", yields)]
    async fn apart(&self) {
        for _ in 0..3 {}
    }

    #[method(yields(often), budget = "1ms" + "1ms")]
    async fn behind(&self) {
        for _ in 0..3 {}
    }

    // Several attributes may name needs; both mistakes are reported.
    #[method(needs(self.open), needs(*sum > 0), budget, 7)]
    async fn many(&self, sum: u64) {}

    #[method(needs(self.))]
    async fn path(&self) {}
}

#[upbeat::service(serial = true)]
impl Shop for Vault {
    async fn twice(&self) {}
    async fn apart(&self) {}
    async fn value(&self) {}
    async fn text(&self) {}
    async fn equals(&self) {}
}

#[upbeat::service("Counter")]
trait Text {
    async fn add(&self, n: u64) -> u64;
}

#[upbeat::service(crate = ::upbeat, crate = ::upbeat)]
trait Crates {
    async fn add(&self, n: u64) -> u64;
}

fn main() {}
