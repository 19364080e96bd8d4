import { sampled } from "@berth/testing/sampled"
import { BACKENDS, describeOn, flagsOf } from "../backends.ts"
import { describeShellAgent } from "./shell.ts"

describeOn(
  sampled("backends of sessions with the shell agent", BACKENDS, 1),
  "a session with the shell agent",
  (backend) => describeShellAgent(() => flagsOf(backend)),
)
