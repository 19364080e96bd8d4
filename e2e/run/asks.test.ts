import { describe, expect, it, onTestFinished } from "vitest"
import { sitAt } from "../sandboxes/pty.ts"
import { type Part, playSession } from "./played.ts"
import { startProcess } from "./process.ts"

/** An agent that begins to speak, asks for a permission, then a question, and ends with the last answer. */
const ASKS: Part = {
  onPrompt: (prompt) => [
    { type: "prompt.state", prompt, state: "queued" },
    { type: "prompt.state", prompt, state: "running" },
    { type: "message.delta", prompt, message: "m", text: "I begin\u001b[31m" },
    { type: "permission.asked", prompt, ask: "a1", about: "run rm -rf build" },
  ],
  onAnswer: (prompt, answer) =>
    answer.kind === "permission"
      ? [
          { type: "permission.answered", prompt, ask: "a1", allowed: answer.allow },
          {
            type: "question.asked",
            prompt,
            ask: "a2",
            question: "Which?",
            choices: ["red", "blue"],
          },
        ]
      : [
          { type: "question.answered", prompt, ask: "a2", answer: answer.answer },
          { type: "prompt.state", prompt, state: "succeeded" },
        ],
}

const PROMPT = ["run", "--workspace", "app", "--no-diff", "do it"]

const sit = async () => {
  const played = await playSession(ASKS)
  const person = sitAt(played.command(PROMPT), played.env)
  onTestFinished(() => person.close())
  return { ...played, person }
}

describe("an ask of an agent", () => {
  it("is shown to the person at the terminal, on lines of its own", async () => {
    const { person, answers } = await sit()
    await person.see(
      /I begin\ufffd\[31m\r\n\? a1: may the agent: run rm -rf build\r\n\? allow\? \[y\/N\] $/,
    )
    person.type("y\n")
    await person.see(/\? a2: Which\?\r\n {2}1\. red\r\n {2}2\. blue\r\n\? answer .*: $/)
    person.type("2\n")
    expect(await person.ended).toBe(0)
    expect(answers).toEqual([
      { kind: "permission", ask: "a1", allow: true },
      { kind: "question", ask: "a2", answer: "blue" },
    ])
  })

  it("may be answered by an empty line, which allows nothing", async () => {
    const { person, answers } = await sit()
    await person.see(/allow\? \[y\/N\] $/)
    person.type("\n")
    await person.see(/\? answer .*: $/)
    person.type("\n")
    expect(await person.ended).toBe(0)
    expect(answers).toEqual([
      { kind: "permission", ask: "a1", allow: false },
      { kind: "question", ask: "a2", answer: null },
    ])
  })

  it("is no longer open when another person has answered", async () => {
    const { person, answers, ...played } = await sit()
    await person.see(/allow\? \[y\/N\] $/)
    expect(await run(played, ["answer", "app", "a1", "--deny"])).toMatchObject({ status: 0 })
    await person.see(/\? a1: denied\r\n/)
    await person.see(/\? answer .*: $/)
    expect(await run(played, ["answer", played.id, "a2", "green"])).toMatchObject({ status: 0 })
    expect(await person.ended).toBe(0)
    expect(answers).toEqual([
      { kind: "permission", ask: "a1", allow: false },
      { kind: "question", ask: "a2", answer: "green" },
    ])
  })

  it("is shown with the command that answers it where there is no terminal", async () => {
    const played = await playSession(ASKS)
    const child = start(played, PROMPT)
    await child.see(
      `? the agent waits for: berth answer ${played.id} --allow a1 (or --deny)\n`,
      "stderr",
    )
    expect(await run(played, ["answer", "app", "a1", "--allow"])).toMatchObject({ status: 0 })
    await child.see(`? the agent waits for: berth answer ${played.id} a2 "the answer"\n`, "stderr")
    expect(await run(played, ["answer", "app", "a2", "--decline"])).toMatchObject({ status: 0 })
    // Programs get the agent's words unchanged.
    expect(await child.ended).toMatchObject({ stdout: "I begin\u001b[31m\n", status: 0 })
  })
})

describe("an ask of an agent that no person watched", () => {
  it("is shown with the command that answers it, and answered without its id", async () => {
    const played = await playSession(ASKS)
    expect(await run(played, ["run", "--detach", ...PROMPT.slice(1)])).toMatchObject({ status: 0 })
    const waits = /the agent waits for permission, since \d+ s: run rm -rf build\n/
    expect((await run(played, ["sessions"])).stdout).toMatch(waits)
    const { stdout } = await run(played, ["log", "app"])
    expect(stdout).toMatch(waits)
    expect(stdout).toContain(`? to answer: berth answer ${played.id} --allow a1 (or --deny)\n`)
    expect((await run(played, ["answer", "app", "yes"])).stderr).toContain("--allow a1 (or --deny)")
    expect(await run(played, ["answer", "app", "--allow"])).toMatchObject({ status: 0 })
    expect((await run(played, ["sessions"])).stdout).toMatch(/an answer, since \d+ s: Which\?/)
    expect(await run(played, ["answer", "app", "blue"])).toMatchObject({ status: 0 })
    expect((await run(played, ["answer", "app", "green"])).stderr).toContain("asks nothing")
    expect(played.answers).toEqual([
      { kind: "permission", ask: "a1", allow: true },
      { kind: "question", ask: "a2", answer: "blue" },
    ])
  })

  it("can be stopped with its prompt", async () => {
    const played = await playSession(ASKS)
    const { stdout } = await run(played, ["run", "--detach", "--json", ...PROMPT.slice(1)])
    const stopped = await run(played, ["stop", "--prompt", "app"])
    expect(stopped).toMatchObject({ stdout: `${JSON.parse(stdout).prompt}\n`, status: 0 })
  })
})

type Played = Pick<Awaited<ReturnType<typeof playSession>>, "command" | "env">

const start = ({ command, env }: Played, args: readonly string[]) => {
  const [node = "", ...own] = command(args)
  return startProcess(node, own, { env, cwd: "/" })
}

const run = (played: Played, args: readonly string[]) => start(played, args).ended
