import { serve } from "../../testing/serve.ts"
import { DATA_DISK } from "../../testing/server-process.ts"
import { openHarness } from "./harness.ts"

const disk = process.env[DATA_DISK]
if (disk !== undefined) process.env.TMPDIR = disk
serve(await openHarness())
