import { tmpdir } from "node:os"
import { serve } from "../../testing/serve.ts"
import { DATA_DISK } from "../../testing/server-process.ts"
import { openHarness } from "./harness.ts"

serve(await openHarness({ networks: true, dataIn: process.env[DATA_DISK] ?? tmpdir() }))
