//! Attributes of an `impl`'s methods about which the server alone decides.

#[upbeat::service]
trait Bank {
    async fn take(&self, sum: u64) -> u64;
}

struct Nack;

#[upbeat::service]
impl Bank for Nack {
    #[method(nack)]
    async fn take(&self, sum: u64) -> u64 {
        sum
    }
}

struct Loops;

#[upbeat::service]
impl Bank for Loops {
    #[method(yields)]
    async fn take(&self, sum: u64) -> u64 {
        sum
    }
}

struct Needs;

#[upbeat::service]
impl Bank for Needs {
    #[method(needs())]
    async fn take(&self, sum: u64) -> u64 {
        sum
    }
}

struct Lock;

#[upbeat::service]
impl Bank for Lock {
    #[method(needs(*sum))]
    async fn take(&self, sum: u64) -> u64 {
        sum
    }
}

struct Outlives;

#[upbeat::service]
impl Bank for Outlives {
    #[method(outlives = "ever")]
    async fn take(&self, sum: u64) -> u64 {
        sum
    }
}

struct Budget;

#[upbeat::service]
impl Bank for Budget {
    #[method(budget = "1.5ms")]
    async fn take(&self, sum: u64) -> u64 {
        sum
    }
}

struct Execution;

#[upbeat::service]
impl Bank for Execution {
    #[method(execution = "rpc")]
    async fn take(&self, sum: u64) -> u64 {
        sum
    }
}

struct Unknown;

#[upbeat::service]
impl Bank for Unknown {
    #[method(priority = 7)]
    async fn take(&self, sum: u64) -> u64 {
        sum
    }
}

struct Nothing;

#[upbeat::service]
impl Bank for Nothing {
    async fn take(&self, sum: u64) -> u64 {
        sum
    }
}

struct Own;

#[upbeat::service(serial)]
impl Own {
    async fn take(&self, sum: u64) -> u64 {
        sum
    }
}

struct Parallel;

#[upbeat::service(parallel)]
impl Bank for Parallel {
    async fn take(&self, sum: u64) -> u64 {
        sum
    }
}

#[upbeat::service(serial)]
trait Serial {
    async fn take(&self, sum: u64) -> u64;
}

fn main() {}
