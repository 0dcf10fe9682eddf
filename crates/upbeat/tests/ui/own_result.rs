//! Types of the user's own that are named `Result`.

/// A result without parameters.
mod bare {
    #[derive(serde::Serialize, serde::Deserialize, upbeat::Wire)]
    pub enum Result {
        Won,
        Lost,
    }

    #[upbeat::service]
    trait Game {
        async fn play(&self) -> Result;
    }
}

/// A result with the parameters of the standard library's.
mod of_two {
    #[derive(serde::Serialize, serde::Deserialize, upbeat::Wire)]
    pub enum Result<T, E> {
        Won(T),
        Lost(E),
    }

    #[upbeat::service]
    trait Game {
        async fn play(&self) -> Result<u64, String>;
    }
}

fn main() {}
