import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { opencodeBinary } from "@berth/testing/opencode"
import { requires } from "@berth/testing/requires"
import { expect } from "vitest"
import { ask, ignore, never } from "../testing/ask.ts"
import { makeStage } from "./testing/stage.ts"

/** Every system call of OpenCode that names a file is looked at, which makes it several times slower. */
const TRACED_LIMIT_MS = 120_000

requires("strace").it(
  "[R2.3] OpenCode opens nothing of the repo before it is attached, and reads it then",
  async () => {
    const traced = `exec strace -f -ttt -y -e trace=%file -o "$HOME/calls" ${opencodeBinary()} "$@"`
    const stage = await makeStage({ instead: traced })
    mkdirSync(join(stage.repo, ".opencode/command"), { recursive: true })
    writeFileSync(join(stage.repo, ".opencode/command/hi.md"), "Say hi.")
    writeFileSync(join(stage.repo, "AGENTS.md"), "Be kind.")

    await stage.agent.start(never, ignore)
    const attachedAtS = Date.now() / 1000
    await stage.agent.attach(stage.repo, never)
    expect((await ask(stage.agent, "hello")).result).toEqual({ state: "succeeded" })
    await stage.processes.stop()

    const calls = readFileSync(join(stage.home, "calls"), "utf8").split("\n")
    const ofRepo = calls.filter((call) => call.includes("watched-repo"))
    const before = ofRepo.filter((call) => Number(call.split(/ +/, 2)[1]) < attachedAtS)
    expect(calls.length).toBeGreaterThan(500)
    expect(before).toEqual([])
    expect(ofRepo.some((call) => call.includes(".opencode"))).toBe(true)
    expect(ofRepo.some((call) => call.includes("AGENTS.md"))).toBe(true)
  },
  TRACED_LIMIT_MS,
)
