//! A library of two versions, and the callers that its listener admits.

use crate::common::{PATIENCE, ms, remote};
use std::convert::Infallible;
use std::time::Duration;
use upbeat_sim::{Sim, check};

const SOON: Duration = Duration::from_secs(10);

/// A library of today.
mod today {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, upbeat::Wire)]
    pub(super) struct Book {
        pub(super) pages: u64,
        #[wire(default)]
        pub(super) title: String,
    }

    /// Lends books.
    #[upbeat::service]
    pub(super) trait Library {
        /// Adds so many pages.
        async fn add(&self, book: Book, pages: u64) -> Book;
    }
}

/// The same library, before its books had titles.
mod before {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, upbeat::Wire)]
    pub(super) struct Book {
        pub(super) pages: u64,
    }

    /// Lends books.
    #[upbeat::service]
    pub(super) trait Library {
        /// Adds so many pages.
        async fn add(&self, book: Book, pages: u64) -> Book;
    }
}

struct Shelf;

impl before::Library for Shelf {
    async fn add(&self, book: before::Book, pages: u64) -> before::Book {
        before::Book { pages: book.pages + pages }
    }
}

impl today::Library for Shelf {
    async fn add(&self, book: today::Book, pages: u64) -> today::Book {
        if pages.is_multiple_of(3) {
            upbeat::sleep(ms(pages)).await;
        }
        today::Book { pages: book.pages + pages, title: book.title + "!" }
    }
}

/// Callers of today and of before call one library, each in its own form.
pub(crate) fn tolerant(sim: &Sim) {
    sim.start("archive", |sim| {
        let node = sim.node("archive").build().unwrap();
        node.serve(before::LibraryServer::new(Shelf)).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    sim.start("library", |sim| {
        let node = sim.node("library").build().unwrap();
        node.serve(today::LibraryServer::new(Shelf)).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    let node = sim.node("client").build().unwrap();
    node.block_on(async {
        let now = node.connect::<today::LibraryClient>("library").wait_for(SOON).await.unwrap();
        let old = node.connect::<before::LibraryClient>("library").wait_for(SOON).await.unwrap();
        let there = node.connect::<today::LibraryClient>("archive").wait_for(SOON);
        let there = there.await.unwrap();
        for pages in 0..12 {
            let title = "a title ".repeat(sim.below(30) as usize);
            let book = today::Book { pages: 7, title: title.clone() };
            let expected = today::Book { pages: 7 + pages, title: title + "!" };
            assert_eq!(now.add(book, pages).await, Ok(expected));
            let book = today::Book { pages: 3, title: "unknown there".to_owned() };
            let expected = today::Book { pages: 3 + pages, title: String::new() };
            assert_eq!(there.add(book, pages).await, Ok(expected));
            let book = before::Book { pages: 5 };
            assert_eq!(old.add(book, pages).await, Ok(before::Book { pages: 5 + pages }));
        }
    });
}

/// A listener admits so many sessions of a host: one that has ended makes room for the next.
pub(crate) fn admitted(sim: &Sim) {
    sim.host("vienna").start("library", |sim| {
        let node = remote(sim, "library", ms(100)).listen("vienna:7000").sessions_per_address(3);
        let node = node.build().unwrap();
        node.serve(today::LibraryServer::new(Shelf)).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    sim.start("caller", |sim| {
        let node = remote(sim, "caller", ms(100)).build().unwrap();
        node.block_on(async {
            let library = node.connect::<today::LibraryClient>("library@vienna:7000");
            library.wait_for(SOON).await.unwrap();
            upbeat::sleep(ms(sim.below(100))).await;
        });
        Ok::<_, Infallible>(())
    });
    for _ in 0..6 {
        sim.pause(ms(sim.below(150)));
        sim.kill("caller");
        sim.pause(ms(sim.below(150)));
        sim.restart("caller");
    }
    sim.pause(PATIENCE);
    let node = remote(sim, "client", ms(100)).build().unwrap();
    node.block_on(async {
        let library = node.connect::<today::LibraryClient>("library@vienna:7000");
        let library = library.wait_for(SOON).await.unwrap();
        let book = today::Book { pages: 1, title: String::new() };
        assert!(library.add(book, 1).await.is_ok());
    });
}

#[test]
fn callers_of_two_versions_read_their_own_form() {
    check(10, tolerant);
}

#[test]
fn ended_sessions_make_room_for_others() {
    check(10, admitted);
}
