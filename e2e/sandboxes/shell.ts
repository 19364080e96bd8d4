import { describe, expect, it, onTestFinished } from "vitest"
import { processesOf } from "../boot/stage.ts"
import type { Stage } from "./load.ts"
import { sitAt } from "./pty.ts"

/** Says what it is told, and by what. */
const LISTENER = `trap 'echo "resized to $(stty size)"' WINCH; trap 'echo interrupted; exit 7' INT
echo listening; while :; do sleep 0.05; done`

export const openShell = ({ server }: Stage, args: readonly string[]) => {
  const sitting = sitAt(server.commandOf(["shell", ...args]), server.env)
  onTestFinished(() => sitting.close())
  return sitting
}

/** `berth shell`, as a person at a terminal has it. */
export const describeShell = (stage: () => Stage): void => {
  describe("berth shell", () => {
    it("shows a shell that is typed to, and ends as it does", async () => {
      const person = openShell(stage(), ["app", "--cwd", "/tmp", "--", "sh"])
      await person.see(/[$#] $/)
      expect(person.isByLines()).toBe(false)
      person.type("echo he''llo é from $PWD; stty size\n")
      await person.see(/hello é from \/tmp\r\n24 80\r\n/)
      person.type("exit 5\n")
      expect(await person.ended).toBe(5)
      expect(person.isByLines()).toBe(true)
    })

    it("passes on what the window and the keys do", async () => {
      const person = openShell(stage(), ["app", "sh", "-c", LISTENER])
      await person.see(/listening/)
      person.resize({ cols: 101, rows: 37 })
      await person.see(/resized to 37 101/)
      person.type("\x03")
      await person.see(/interrupted/)
      expect(await person.ended).toBe(7)
      expect(person.isByLines()).toBe(true)
    })

    it("leaves nothing inside when its window is closed, or when it is ended", async () => {
      const { box } = stage()
      const inside = () =>
        processesOf(box.id).filter(({ command }) => command.startsWith("sleep 4"))
      for (const signal of ["SIGHUP", "SIGTERM"] as const) {
        const person = openShell(stage(), ["app", "sh", "-c", "echo up; exec sleep 4712"])
        await person.see(/up/)
        expect(inside()).toHaveLength(1)
        person.child.kill(signal)
        await person.ended
        expect(inside()).toEqual([])
        expect(person.isByLines()).toBe(true)
      }
    })

    it("comes back to a terminal, which goes on when only the one who came back leaves", async () => {
      const first = openShell(stage(), ["app", "sh"])
      await first.see(/[$#] $/)
      first.type("echo earl''ier\n")
      await first.see(/earlier\r\n/)
      const [terminal] = (await stage().box.pty.list()).filter(({ exit }) => exit === null)
      const second = openShell(stage(), ["app", "--attach", terminal?.id ?? ""])
      await second.see(/earlier\r\n/)
      second.child.kill("SIGHUP")
      await second.ended
      first.type("exit 3\n")
      expect(await first.ended).toBe(3)
    })
  })
}
