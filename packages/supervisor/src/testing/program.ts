import { run } from "../run.ts"

/** The supervisor as a process of its own, at the places that a test names. */
run(JSON.parse(process.argv[2] ?? ""))
