import { readActivity } from "@berth/bridge/read-activity"
import { type BootStep, type BootTrace, overlapMs } from "@berth/protocol/boot"
import type { BackendChoice } from "@berth/server/open-backend"
import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { BACKENDS, choiceOf, describeOn } from "../backends.ts"
import { type Scene, setScene, workspaceOf } from "./opencode-stage.ts"

/** The toolbox has half a gigabyte. */
const SCENE_LIMIT_MS = 240_000
/** Under strace everything is several times slower. */
const BOOT_LIMIT_MS = 180_000

const never = new AbortController().signal

const stepOf = ({ steps }: BootTrace, name: string): BootStep => {
  const step = steps.find((step) => step.name === name)
  if (step === undefined) throw new Error(`there is no step ${name}`)
  return step
}

const useScene = (): (() => Scene) => {
  let scene: Scene | undefined
  beforeAll(async () => {
    scene = await setScene(new AbortController().signal)
  }, SCENE_LIMIT_MS)
  afterAll(() => scene?.close())
  return () => scene as Scene
}

type OpenBackend = () => Promise<BackendChoice>

type ChooseToolbox = (scene: Scene) => Scene["toolbox"]
type Launched = Awaited<ReturnType<Awaited<ReturnType<Scene["open"]>>["launch"]>>

const bootsBeside = (
  title: string,
  staged: () => Scene,
  backend: OpenBackend,
  toolboxOf: ChooseToolbox,
  more: (sandbox: Launched, trace: BootTrace) => Promise<void> = async () => {},
) =>
  it(
    title,
    async () => {
      const scene = staged()
      const standalone = await scene.open(toolboxOf(scene), await backend())
      try {
        const sandbox = await standalone.launch(workspaceOf(scene), "fresh")
        const answer = await sandbox.prompt("run: cat made-by-setup.txt .opencode/command/made.md")
        const trace = await sandbox.trace()
        expect(trace.warnings).toEqual([])
        expect(answer, JSON.stringify(answer)).toMatchObject({
          state: "succeeded",
          output: "made by setup\nmade by start\n",
        })

        // The sandbox has no network, and the tool's package is not in the repo.
        expect(await sandbox.prompt("greet: Ada")).toMatchObject({
          state: "succeeded",
          output: "Hello, Ada",
        })

        const start = stepOf(trace, "agent-start")
        expect(overlapMs(start, stepOf(trace, "git-sync"))).toBeGreaterThan(0)
        expect(overlapMs(start, stepOf(trace, "start-hook"))).toBeGreaterThan(0)

        const shared = await standalone.sharedDirectories.find(sandbox.id)
        if (shared === undefined) throw new Error("there is no shared directory")
        const left = async () => (await readActivity(shared, {}, never)).leftProcesses
        expect(await left()).toBe(0)
        await sandbox.prompt("run: nohup sleep 1000 > /tmp/nohup.out 2>&1 & echo left")
        await expect.poll(left).toBe(1)
        await sandbox.prompt(
          "run: setsid -f sh -c 'sleep 1000 & exit' > /tmp/nohup.out 2>&1; echo left",
        )
        await expect.poll(left).toBe(2)
        await more(sandbox, trace)
      } finally {
        await standalone.close()
      }
    },
    BOOT_LIMIT_MS,
  )

/** Expects, by the traced calls, that OpenCode opened nothing of the repo before the start hook ended. */
const openedNothing = async (sandbox: Launched, trace: BootTrace): Promise<void> => {
  const calls = "awk '/workspace.repo/ { print $2; exit }' /tmp/calls"
  const { output: firstLook } = await sandbox.prompt(`run: ${calls}`)
  const [hook, attach] = ["start-hook", "agent-attach"].map((name) => stepOf(trace, name))
  const bootedAtMs = Date.parse(trace.startedAt)
  expect(Number(firstLook) * 1000).toBeGreaterThan(bootedAtMs + (hook?.endedAtMs ?? Number.NaN))
  expect(attach?.startedAtMs).toBeGreaterThanOrEqual(hook?.endedAtMs ?? Number.NaN)

  const { output: traced } = await sandbox.prompt("run: grep -c . /tmp/calls")
  expect(Number(traced)).toBeGreaterThan(1_000)
  // The brackets keep grep from matching its own calls.
  for (const file of ["command/[l]ater.md", "[A]GENTS.md"]) {
    const { output: read } = await sandbox.prompt(`run: grep -c '${file}' /tmp/calls`)
    expect(Number(read)).toBeGreaterThan(0)
  }
  // Neither OpenCode nor Berth changed a tracked file, or added a file that could make a checkout fail.
  const { output: changed } = await sandbox.prompt("run: git status --porcelain; echo end")
  expect(changed).toBe("end\n")
}

const BESIDE =
  "starts OpenCode beside git sync and the hooks, takes a prompt, uses a tool of the repo without a network, and counts the processes that prompts left"

const embedded = () =>
  requires("strace").describe("with a trace of what it opens", () =>
    bootsBeside(
      `[R2.3] [R2.4] [R1.7] ${BESIDE}; OpenCode opens nothing of a repo that tracks .opencode and .berth before the start hook has ended`,
      useScene(),
      () => choiceOf("embedded"),
      ({ tracing }) => tracing,
      openedNothing,
    ),
  )

const docker = () =>
  describe("in an image without strace", () =>
    bootsBeside(
      `[R2.4] [R1.7] ${BESIDE}`,
      useScene(),
      () => choiceOf("docker"),
      ({ toolbox }) => toolbox,
    ))

const CASES = { embedded, docker }

describeOn(
  sampled("backends of boots with the real OpenCode", BACKENDS, 1),
  "a boot with the real OpenCode",
  (backend) => CASES[backend](),
)
