"""Content of a Wagtail site, made by its own models; a program of Wagtail's environment.

    python wagtail_content.py NUMBER

NUMBER tells one call's content from another's.
"""

import sys

import django

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.contrib.auth.models import Group, Permission  # noqa: E402
from django.core.files.images import ImageFile  # noqa: E402
from wagtail.contrib.redirects.models import Redirect  # noqa: E402
from wagtail.images.models import Image  # noqa: E402
from wagtail.models import Collection, Page, Site  # noqa: E402

number = int(sys.argv[1])
random = __import__("random").Random(number)
user = get_user_model().objects.create_user(f"editor{number}", f"e{number}@example.org", "päss")
group = Group.objects.create(name=f"editors {number} é")
group.permissions.set(Permission.objects.order_by("id")[:: number + 2])
user.groups.add(group)

root = Page.get_first_root_node()
home = root.add_child(instance=Page(title=f"Home {number} 😀 'quoted' \\ back", slug=f"home-{number}", owner=user))
Site.objects.create(hostname=f"host{number}.example.org", root_page=home, site_name="x")
for section in range(3):
    place = home.add_child(instance=Page(title=f"Section {section}", slug=f"s{section}", owner=user))
    for page in range(4):
        child = place.add_child(instance=Page(title=f"Page {page} " + "ä" * page, slug=f"p{page}"))
        child.title += " changed"
        child.save_revision(user=user).publish()
copied = home.copy(recursive=True, update_attrs={"title": "Copy", "slug": f"copy-{number}"}, user=user)
sections = list(copied.get_children())
sections[0].move(sections[2], pos="last-child")
Page.objects.get(pk=sections[1].pk).unpublish()
Page.objects.get(pk=sections[1].pk).get_children().first().delete()
Redirect.objects.create(old_path=f"/old{number}", redirect_page=home, is_permanent=bool(number % 2))
collection = Collection.get_first_root_node().add_child(name=f"Pictures {number}")

from io import BytesIO  # noqa: E402

from PIL import Image as Picture  # noqa: E402

data = BytesIO()
Picture.new("RGB", (10, 10), (random.randrange(256), 0, 0)).save(data, "PNG")
data.seek(0)
picture = Image(title="A picture", file=ImageFile(data, name=f"p{number}.png"), collection=collection)
picture.save()
picture.tags.add("red", f"tag {number}")
picture.get_rendition("width-5")
