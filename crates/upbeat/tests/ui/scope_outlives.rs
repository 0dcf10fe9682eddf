//! A child borrows what its scope borrows, and nothing that ends before the scope does.

use upbeat::Scope;

fn of_the_body() {
    let _ = upbeat::scope(async |s: Scope<'_>| {
        let local = 1;
        s.spawn(async { local + 1 });
    });
}

fn returned<'env>() -> impl Future<Output = i32> + 'env {
    let local = 1;
    upbeat::scope(async |s: Scope<'env>| s.spawn(async { local + 1 }).await)
}

async fn kept() {
    let child = {
        let local = 1;
        upbeat::scope(async |s: Scope<'_>| s.spawn(async { local + 1 })).await
    };
    child.await;
}

fn main() {
    of_the_body();
    drop(returned());
    drop(kept());
}
