import { run } from "../run.ts"

/** Runs the supervisor as a process of its own, with a test's options. */
run(JSON.parse(process.argv[2] ?? ""))
