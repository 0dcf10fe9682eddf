//! Hostile questions: numbers that were never given, parts of random words, expressions and routes with changed bits.

use std::rc::Rc;

use upbeat_core::channel::export::{Expression, Part, Route};
use upbeat_core::limits::EXPORT_PARTS_MAX;

use super::super::{Fault, World};
use super::Exports;
use super::folding::Folding;
use super::form::Type;
use super::questions::{Answer, Asked, Question, Said};
use crate::check::{Found, Hostile, violated};
use crate::random::Random;

/// The most words of a part that is nearly right.
const NEAR_WORDS: u64 = 90;

impl Exports {
    /// Draws a hostile question to a node.
    pub(super) fn hostile(&mut self, to: usize) -> Question {
        let random = &mut self.random;
        let known: Vec<_> = self.all.iter().filter(|it| it.node == to).collect();
        let at = random.below(1 + known.len() as u64);
        let exported = known.get(at as usize);
        let number = match exported {
            Some(exported) => exported.number.wrapping_add(random.pick(&[0, 0, 0, 0, 0, 0, 1])),
            None => random.next() as u32,
        };
        let of = match exported {
            Some(exported) => Rc::clone(&exported.of),
            None => Rc::clone(&self.types[0]),
        };
        let version = random.permille(300).then(|| random.next());
        match random.below(if of.routes.is_empty() { 13 } else { 24 }) {
            12.. => {
                let (route, part) = (route(&of, random), part(&of, random));
                // Most parts are whole values of the type to which the route leads.
                let words = Route::decode(&route, &of.shape).map(|(_, end)| end.words() as u32);
                let whole = words.ok().filter(|_| random.permille(800));
                let part = whole.map_or(part, |words| Part { at: 0, words });
                Question::Follow(number, route, part)
            }
            0..=4 => Question::Read(number, part(&of, random)),
            5 => {
                let many = EXPORT_PARTS_MAX as u64 + random.below(3);
                let part =
                    if random.permille(500) { right_part(&of, random) } else { part(&of, random) };
                Question::ReadAll(number, vec![part; many as usize])
            }
            6 => {
                Question::ReadAll(number, (0..random.below(4)).map(|_| part(&of, random)).collect())
            }
            7 => {
                let asked = Asked { part: part(&of, random), is_unit: random.permille(500) };
                // A watch of a version that nobody has is answered at once.
                Question::Changed(number, asked, version)
            }
            8 => {
                let asked = |random: &mut Random| Asked {
                    part: part(&of, random),
                    is_unit: random.permille(500),
                };
                let parts = (0..random.below(4)).map(|_| (asked(random), version.unwrap_or(0)));
                Question::Stand(number, parts.collect())
            }
            _ => {
                let mut words = match Folding::draw(&of, random) {
                    Some(folding) if random.permille(900) => folding.expression.encode(),
                    _ => [0; 5].map(|_| random.next()),
                };
                for _ in 0..random.below(3) {
                    let small = random.pick(&[1, 2, 4, 8, 16]) << random.pick(&[0, 32, 40]);
                    let at = random.index(words.len());
                    words[at] ^= if random.permille(700) { small } else { random.next() };
                }
                Question::Evaluate(number, words)
            }
        }
    }
}

/// Draws a route, most of which are nearly right: to a struct anywhere, or with bits of its words turned over.
fn route(of: &Type, random: &mut Random) -> Vec<u64> {
    let mut words = if of.routes.is_empty() || random.permille(400) {
        let pointer = random.pick(&[0, 1, 5, 20, 60, u32::MAX, random.clone().next() as u32]);
        vec![1 | 1 << 8 | u64::from(pointer) << 32, u64::from(random.pick(b"RRS"))]
    } else {
        let path = &of.routes[random.index(of.routes.len())];
        of.shape.resolve(&of.form.path_text(path)).map_or(Vec::new(), |found| found.route)
    };
    for _ in 0..random.below(3).min(words.len() as u64) {
        let at = random.index(words.len());
        words[at] ^= random.pick(&[1, 2, 4, 1 << 8, 1 << 32, 1 << 33, 1 << 36]);
    }
    words
}

/// Draws a part, which is often nearly right.
fn part(of: &Type, random: &mut Random) -> Part {
    match random.below(10) {
        0 => right_part(of, random),
        1 => Part::decode(random.next()),
        _ => {
            let [at, words] = [0, 2].map(|least| {
                let most = NEAR_WORDS >> random.below(7);
                random.below(least + most) as u32
            });
            Part { at, words }
        }
    }
}

/// Draws a part of a value.
fn right_part(of: &Type, random: &mut Random) -> Part {
    of.form.place(&of.paths[random.index(of.paths.len())]).part()
}

impl World {
    /// Checks the answer to a hostile question.
    pub(super) fn check_hostile(
        &mut self,
        asked: u64,
        question: &Question,
        answer: &Answer,
    ) -> Result<(), Fault> {
        let (parts, words) = match (question, &answer.said) {
            (_, Said::NotRead(_)) => {
                self.counts.hostile_refused += 1;
                return Ok(());
            }
            (Question::Read(_, part), Said::Words(words)) => (vec![*part], words.clone()),
            (Question::ReadAll(_, parts), Said::Words(words)) => (parts.clone(), words.clone()),
            (Question::Changed(_, asked, _), Said::Changed(words, _)) => {
                (vec![asked.part], vec![words.clone()])
            }
            (Question::Follow(_, route, part), Said::Followed(words, _)) => {
                return match words.len() == part.words as usize {
                    true => Ok(()),
                    false => violated(format!("{words:x?} come of {part} behind {route:x?}"))?,
                };
            }
            (Question::Evaluate(_, words), Said::Number(_)) => {
                let of = &self.exports.all[answer.from].of;
                let expression = Expression::decode(*words);
                return match expression.is_ok_and(|expression| Folding::is_of(of, &expression)) {
                    true => Ok(()),
                    false => violated(format!("{words:x?} are evaluated over {}", of.text))?,
                };
            }
            _ => return Ok(()),
        };
        self.check.exports.parts_answered(parts.len())?;
        let Some(exported) = self.exports.all.get(answer.from) else { return Ok(()) };
        for (part, words) in parts.iter().zip(words).filter(|(part, _)| part.words > 0) {
            let of = &exported.of;
            let found = match (of.path_of(*part), of.measured_by(*part)) {
                (Some(path), _) => Hostile::Part(Found {
                    path: path.clone(),
                    text: super::reader::decoded(of, path, &words)?,
                    is_word: true,
                }),
                (None, Some(path)) => Hostile::Length(path.clone(), words[0]),
                (None, None) => Hostile::Nothing,
            };
            self.check.exports.hostile_answered(answer.from, asked, found)?;
        }
        Ok(())
    }
}
