//! A call that outlives what it borrows.

#[upbeat::service]
pub trait Store {
    async fn put(&self, key: &str, value: &[u8]) -> u64;
}

pub async fn late(store: &StoreClient) -> Result<u64, upbeat::CallError> {
    let call = {
        let value = vec![1, 2, 3];
        store.put("key", &value)
    };
    call.await
}

fn main() {}
