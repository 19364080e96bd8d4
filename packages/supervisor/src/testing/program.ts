import { systemClock } from "../processes/clock.ts"
import { fastClock } from "../processes/testing/fast-clock.ts"
import { run } from "../run.ts"

/** The supervisor as a process of its own, at the places that a test names. */
const { isHurried, ...options } = JSON.parse(process.argv[2] ?? "")
run({ clock: isHurried ? fastClock : systemClock, ...options })
