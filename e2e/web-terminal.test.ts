import { spawn } from "node:child_process"
import { once } from "node:events"
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { carryEnvironment } from "@berth/supervisor/processes/carried-environment"
import { requires } from "@berth/testing/requires"
import { webTerminal } from "@berth/toolbox/inputs/web-terminal"
import { chromium } from "playwright-core"
import { expect, onTestFinished } from "vitest"

const MAIN = fileURLToPath(
  new URL("../packages/supervisor/src/web-terminal/main.ts", import.meta.url),
)
const ROOT = fileURLToPath(new URL("..", import.meta.url))

/** Flags that keep the browser from traffic of its own. */
const QUIET = [
  ...["--no-sandbox", "--disable-background-networking", "--disable-component-update"],
  ...["--disable-sync", "--no-first-run"],
]

const startTerminal = async () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-web-terminal-"))
  const { signal } = new AbortController()
  const { parts } = await webTerminal({ from: ROOT, arch: "x64", path: "", signal })
  for (const part of parts)
    if (part.kind === "file") copyFileSync(part.from, join(directory, basename(part.to)))
  const shells = { PATH: "/usr/bin:/bin", SHELL: "/bin/sh", PS1: "$ ", LC_ALL: "C.UTF-8" }
  const program = spawn(process.execPath, ["--conditions=source", MAIN, directory, directory], {
    env: { PORT: "0", ...carryEnvironment(shells) },
    stdio: ["ignore", "pipe", "inherit"],
  })
  const ended = once(program, "close")
  onTestFinished(async () => {
    program.kill("SIGTERM")
    await ended
    rmSync(directory, { recursive: true, force: true })
  })
  const [line] = await once(createInterface({ input: program.stdout }), "line")
  return { directory, url: String(line).replace("listening on ", "") }
}

requires("chromium").it(
  "the web terminal works in a browser: keys reach a shell, its output is shown, and its size grows with the window",
  async () => {
    const { directory, url } = await startTerminal()
    const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: QUIET })
    onTestFinished(() => browser.close())
    const page = await browser.newPage({ viewport: { width: 800, height: 600 } })
    const problems: string[] = []
    page.on("pageerror", (error) => problems.push(error.message))
    page.on("console", (message) => {
      if (message.type() === "error") problems.push(message.text())
    })
    await page.goto(url)
    const written = (name: string) => {
      const path = join(directory, name)
      return existsSync(path) ? readFileSync(path, "utf8") : ""
    }
    await page.locator(".xterm-rows").getByText("$").first().waitFor()
    await page.keyboard.type("echo grüße-$((6*7)); stty size > small; echo done > finished\n")
    await page.locator(".xterm-rows").getByText("grüße-42").waitFor()
    await expect.poll(() => written("finished")).toBe("done\n")
    await page.setViewportSize({ width: 1200, height: 900 })
    await page.keyboard.type("stty size > large; echo done >> finished\n")
    await expect.poll(() => written("finished")).toBe("done\ndone\n")
    const [small, large] = ["small", "large"].map((name) => written(name).split(" ").map(Number))
    expect(large?.[0]).toBeGreaterThan(small?.[0] ?? Number.POSITIVE_INFINITY)
    expect(large?.[1]).toBeGreaterThan(small?.[1] ?? Number.POSITIVE_INFINITY)
    await page.keyboard.type("exit\n")
    await page.locator(".xterm-rows").getByText("press a key for a new shell").waitFor()
    expect(problems).toEqual([])
  },
)
